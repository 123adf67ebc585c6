"""The points about LLMs, by subject."""
