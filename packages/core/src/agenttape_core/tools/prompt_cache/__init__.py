"""Prompt caches of providers: the tokens that a run could have read from them, and what kept it from that."""
