"""The checks about embedding models, by subject."""
