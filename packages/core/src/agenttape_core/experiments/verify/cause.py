"""Causes of differences between replays, and remedies."""

from __future__ import annotations

from typing import Literal, NamedTuple

from agenttape_core.experiments.verify.environment import Factor

Noise = Literal["address", "id", ""]
"""The only difference of two texts, if it is a memory address or an id."""


class Cause(NamedTuple):
    """The cause of a difference between two replays.

    Args:
        name: The factor that alone makes the difference, or what there is instead of one.
        why: Its explanation.
        remedy: The advice.
    """

    name: str
    why: str
    remedy: str


BY_FACTOR: dict[Factor, Cause] = {
    "hash_seed": Cause(
        "hash seed",
        "iterating over a set, or hash(), gives another order or value in each process",
        "sort before you iterate: sorted(the_set); hash with hashlib",
    ),
    "time_zone": Cause(
        "time zone",
        "local time differs from machine to machine",
        "use aware datetimes: datetime.now(timezone.utc), or the zone that you mean",
    ),
    "locale": Cause(
        "locale",
        "the result depends on formats, collation or encodings of the machine",
        "do not call locale.setlocale(..., ''); name the encoding and the format",
    ),
    "working_directory": Cause(
        "working directory",
        "the result depends on the path of the working directory, or on a file in it",
        "build paths from __file__ or from an argument, and keep absolute paths out of what you produce",
    ),
    "switch_interval": Cause(
        "thread switching",
        "the faster thread wins: a race",
        "wait for the threads, and take their results in the order in which you started them",
    ),
    "terminal_width": Cause(
        "terminal width",
        "text was laid out for the width of the terminal",
        "give the width: argparse and rich take one",
    ),
    "memory": Cause(
        "memory address",
        "the order of a set of objects, id(), or the repr of an object without one of its own says where it lies in "
        "memory",
        "give its class a __repr__ or use its data instead; keep objects in a list or a dict, which have an order",
    ),
    "schedule": Cause(
        "schedule",
        "small delays of calls, threads or work in pools change the result: it depends on which is faster",
        "wait for all of them, and take their results in the order in which you started them",
    ),
    "earlier_replays": Cause(
        "earlier replays in the process",
        "a second run in one process is not the same as the first: something is kept in memory, such as a cache, a "
        "counter, a checkpointer or an iterator of a module",
        "create it in each run; or leave earlier_replays out of vary, if each run has its own process",
    ),
    "completion_order": Cause(
        "completion order",
        "the outcome depends on which of several calls is answered first",
        "take their results in the order in which you asked; agenttape lab orders finds the smallest such order",
    ),
}

NOT_AS_RECORDED = Cause(
    "not as recorded",
    "the replays do in another order what happened side by side, read other times, or take or write other steps, than "
    "the run that was recorded",
    "see that the program is the one that was recorded, or record it again; docs/identical.md says what cannot be",
)
CAUGHT = Cause(
    "caught failure",
    "a session has failed, and the program went on as if it had not",
    "correct what the failure names; if the program may live with it, say so: on_miss='return', on_unused='ignore'",
)
UNFROZEN = Cause(
    "nothing varied",
    "it differs in the same environment too: the result depends on something that is not recorded",
    "look for random numbers that are not frozen (os.urandom, secrets, a generator made before the session), time "
    "outside of the session or from a clock that was bound before it (default_factory=...), threads that race, and "
    "calls that no boundary tapes",
)
BY_NOISE: dict[Noise, Cause] = {
    "address": BY_FACTOR["memory"],
    "id": Cause(
        "an id that is not frozen",
        "a new id is made in each replay",
        "make it inside the session with uuid.uuid4(), which is frozen, or derive it from the input",
    ),
}
TOGETHER = Cause(
    "several factors together",
    "no factor alone makes the difference, all of them together do",
    "narrow it down: verify(..., vary={two of them})",
)
RARE = Cause(
    "it comes and goes",
    "it did not come back when the same surroundings were tried again: a race, or rare randomness",
    "replay more often: verify(..., runs=50)",
)
