"""Boundaries without a framework: any function becomes one, by a decorator or for a single call."""

from agenttape_core.boundaries.decorator import arecord_call, boundary, record_call

__all__ = ["arecord_call", "boundary", "record_call"]
