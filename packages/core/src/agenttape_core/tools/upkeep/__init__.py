"""The upkeep of cassettes over time: stale cassettes, and files that nobody needs any more."""
