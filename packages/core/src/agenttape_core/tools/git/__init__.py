"""Cassettes in a git repository: readable differences, merges by record, and the set-up by `agenttape init`."""
