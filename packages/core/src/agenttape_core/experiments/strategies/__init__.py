"""Strategies: what to vary in a recorded program, and what came of it. One module each."""
