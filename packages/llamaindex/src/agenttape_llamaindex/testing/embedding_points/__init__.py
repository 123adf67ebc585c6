"""The points about embedding models, by what they are about."""
