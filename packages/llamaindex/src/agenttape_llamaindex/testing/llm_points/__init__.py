"""The points about LLMs, by what they are about."""
