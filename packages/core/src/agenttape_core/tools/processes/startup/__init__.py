"""What every Python that a command starts finds on its path: kept apart, so that nothing else comes with it."""
