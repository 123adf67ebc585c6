"""Tools over finished cassettes. Nothing that records or replays imports them."""
