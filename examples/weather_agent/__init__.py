"""A weather agent, a model service of our own for it, and the demonstration that records and replays it."""
