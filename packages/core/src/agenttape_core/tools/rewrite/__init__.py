"""Cassettes written anew: without what is secret, or in the newest format."""
