"""The points about embedding models, by subject."""
