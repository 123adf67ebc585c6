"""The longest times for which strands wait for each other where nothing says that the wait is in vain.

Shorter limits stand beside the waits that they end, each with what it takes for a sign. These end what shows no sign.
"""

LONGEST = 10.0
"""Seconds of any kind for which a strand that goes on, but hardly computes, as it polls, is waited for.

It is the same for one that has the turn, one that does not come to a gate, and one whose post waits for its turn in an
event loop: a machine that is busy makes each of them late by seconds, and none by more.
"""
