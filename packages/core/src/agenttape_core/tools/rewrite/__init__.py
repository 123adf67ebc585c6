"""Rewrite cassettes: without secrets, or in the newest format."""
