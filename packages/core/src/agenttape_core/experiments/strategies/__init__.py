"""The strategies, one module each: they vary a recorded program, and judge the runs."""
