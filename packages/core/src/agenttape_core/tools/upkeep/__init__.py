"""What becomes of cassettes over time: which of them are stale, and which files nobody needs any more."""
