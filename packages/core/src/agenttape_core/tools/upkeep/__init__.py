"""The upkeep of cassettes over time: stale cassettes, and unneeded files."""
