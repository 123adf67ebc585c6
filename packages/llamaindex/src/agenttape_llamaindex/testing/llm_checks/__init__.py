"""The checks about LLMs, by subject."""
