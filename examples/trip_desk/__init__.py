"""A trip desk: a graph that crashes, is resumed, and is forked."""
