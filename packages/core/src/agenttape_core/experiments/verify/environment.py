"""The factors that are varied around a replay, and their values on this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from agenttape_core.errors import ConfigurationError
from agenttape_core.named_tuples import NamedTuple

Factor = Literal[
    "hash_seed",
    "time_zone",
    "locale",
    "working_directory",
    "switch_interval",
    "terminal_width",
    "memory",
    "schedule",
    "earlier_replays",
    "completion_order",
]
"""Something around a program, or within its process, that must not change its output."""

ORDER: Factor = "completion_order"
"""The factor that is tried last, in one process, if no other makes a difference: it isn't outside of the program."""
EVERY_FACTOR: tuple[Factor, ...] = get_args(Factor)
ALL_FACTORS: tuple[Factor, ...] = EVERY_FACTOR[:-1]
"""The factors of an environment."""
FACTORS: tuple[Factor, ...] = ALL_FACTORS[:6]
"""Those around the process."""
WITHIN: tuple[Factor, ...] = ALL_FACTORS[6:]
"""Those within it."""

_ZONES = ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu", "America/New_York")
_ZONES_WITHOUT_DATABASE = ("UTC0", "LINT-14", "SST11", "NPT-5:45", "EST5EDT,M3.2.0,M11.1.0")
_LOCALES = ("c.utf8", "c", "de_de.utf8", "tr_tr.utf8", "fr_fr.utf8", "ja_jp.utf8", "en_us.utf8")
_SWITCH_INTERVALS = (0.005, 1e-6, 0.1, 1e-4, 1e-5)
_TERMINAL_WIDTHS = (80, 200, 40, 132, 100)
_SEEDS = range(2**32)
_EARLIER = (0, 2, 1, 3)


class Environment(NamedTuple):
    """The environment of one replay."""

    hash_seed: int  # `PYTHONHASHSEED`: decides the order of sets of strings
    time_zone: str  # `TZ`: what local time is
    locale: str  # `LC_ALL` and `LANG`
    working_directory: str
    """A new, empty folder, by its name; or the absolute path of the project's, which is left alone."""
    switch_interval: float  # seconds after which a waiting thread may run; see `sys.setswitchinterval`
    terminal_width: int  # `COLUMNS`: characters in a line of the terminal
    memory: int = 0
    """The seed of what is allocated before, and by which the garbage collector runs more or less often; 0 for nothing.
    It decides where objects lie, and so the order of sets of objects."""
    schedule: int = 0  # the seed of small delays of calls, threads and work in pools; 0 for none
    earlier_replays: int = 0  # the number of replays in the same process before the one that counts
    completion_order: int = 0
    """The number of orders in which calls that overlap are answered, in the same process; 0 for the recorded one
    only."""

    @property
    def variables(self) -> dict[str, str]:
        """The variables of this environment."""
        return {
            "PYTHONHASHSEED": str(self.hash_seed),
            "TZ": self.time_zone,
            "LC_ALL": self.locale,
            "LANG": self.locale,
            "COLUMNS": str(self.terminal_width),
        }


def available(vary: Collection[str], times: int, recorded_seed: int | None = None) -> dict[Factor, Sequence[Any]]:
    """Return the values of each factor here; of one around the process that is not varied, only the first."""
    if isinstance(vary, str) or (unknown := sorted(set(vary) - set(EVERY_FACTOR))):
        found = repr(vary) if isinstance(vary, str) else ", ".join(map(repr, unknown))
        raise ConfigurationError(f"vary: expected a collection of {', '.join(EVERY_FACTOR)}; found {found}")
    first = [recorded_seed] if recorded_seed is not None else []
    choices: dict[Factor, Sequence[Any]] = {
        "hash_seed": [*first, *(seed for seed in range(times) if seed not in first)][:times],
        "time_zone": time_zones(),
        "locale": locales(),
        "working_directory": [f"run-{run}" for run in range(1, times + 1)],
        "switch_interval": _SWITCH_INTERVALS,
        "terminal_width": _TERMINAL_WIDTHS,
    }
    if "working_directory" not in vary:
        choices["working_directory"] = [str(Path.cwd())]
    around = {factor: values if factor in vary else values[:1] for factor, values in choices.items()}
    within: dict[Factor, Sequence[Any]] = {
        "memory": _SEEDS[:times],
        "schedule": _SEEDS[:times],
        "earlier_replays": _EARLIER,
    }
    return {**around, **{factor: values for factor, values in within.items() if factor in vary}}


def time_zones() -> Sequence[str]:
    """Return the names of time zones far apart; in the form of POSIX, where the system has no database of them."""
    import zoneinfo

    known = [zone for zone in _ZONES if any(Path(folder, zone).is_file() for folder in zoneinfo.TZPATH)]
    return known if len(known) > 1 else _ZONES_WITHOUT_DATABASE


def locales() -> Sequence[str]:
    """Return the installed locales whose conventions differ most, UTF-8 ones and `C`; at least `C`."""
    try:
        # S607: where the command is depends on the system, and only its answer is used.
        listed = subprocess.run(["locale", "-a"], capture_output=True, check=True, env={**os.environ, "LC_ALL": "C"})  # noqa: S607
    except (OSError, subprocess.CalledProcessError):
        return ("C",)
    installed = {
        name.lower().replace("utf-8", "utf8"): name for name in listed.stdout.decode("ascii", "replace").split()
    }
    wanted = [name for name in _LOCALES if name in installed]
    others = sorted(name for name in installed if name.endswith(".utf8") and name not in wanted)
    return [installed[name] for name in [*wanted, *others]] or ("C",)


# -- Causes of differences between replays, and remedies: of each factor, and where there is none.


Noise = Literal["address", "id", ""]  # the only difference of two texts, if it is a memory address or an id


class Cause(NamedTuple):
    """The cause of a difference between two replays."""

    name: str  # the factor that alone makes the difference, or what there is instead of one
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
    "see that the program is the one that was recorded, or record it again",
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
    "it did not come back when the same environment was tried again: a race, or rare randomness",
    "replay more often: verify(..., runs=50)",
)
