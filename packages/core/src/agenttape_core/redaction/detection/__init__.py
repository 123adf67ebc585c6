"""Detectors: they find where a text holds a secret, and of which kind. They replace nothing."""
