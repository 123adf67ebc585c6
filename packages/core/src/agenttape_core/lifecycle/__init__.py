"""One use of a cassette: open it, enter its session, commit the recording, judge the run."""
