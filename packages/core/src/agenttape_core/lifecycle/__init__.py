"""One use of a cassette: open it, enter its session, commit what was recorded, judge the run."""
