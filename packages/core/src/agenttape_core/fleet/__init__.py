"""Fleets: thousands of recordings, checked or replayed by any engine that can map. The store is the queue."""
