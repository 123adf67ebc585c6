"""A session in each Python process of a command."""
