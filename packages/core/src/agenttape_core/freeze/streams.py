"""Pseudo-random bytes that do not depend on the order in which parallel tasks run."""

from __future__ import annotations

import hashlib
import json


class Stream:
    """Pseudo-random bytes of one maker in one scope: sha256 over the caller, the ordinal of the call, and a block."""

    def __init__(self, seed: str, scope: str, maker: str) -> None:
        # JSON keeps the parts apart, and has an ASCII form for every string.
        self._start = hashlib.sha256(json.dumps([seed, scope, maker]).encode("ascii"))
        self._taken = 0

    def next(self, size: int) -> bytes:
        """Give the next bytes.

        Args:
            size: How many. The n-th ask gives the start of the same bytes, however many the asks before it took.
        """
        nth = self._taken
        self._taken = nth + 1
        found = b""
        for block in range(-(-size // self._start.digest_size)):
            digest = self._start.copy()
            digest.update(b"%d.%d" % (nth, block))
            found += digest.digest()
        return found[:size]
