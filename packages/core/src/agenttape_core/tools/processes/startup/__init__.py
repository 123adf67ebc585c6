"""The folder that every Python of a command finds on its path: kept apart, so that it adds no other modules."""
