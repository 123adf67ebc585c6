"""The readings of the frozen clock, so that a replay reads the same times as the recording.

The clock of a session is moved by waits, of whichever branch. A branch that reads it beside the waits of others reads a
moment that depends on who was faster.

So each branch's readings are counted, and if branches were interleaved, the recording keeps their readings:
`0*3 0.2001 @1 0.4002*2` are three readings at the beginning, one when the clock had passed by 0.2001 s, and two after
the branch's own first wait. Between two of its waits, a branch's readings are distinguished by their number, and those
of different packages are counted separately: a tracer may be present or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from agenttape_core.locks import Lock

Runs = dict[int, list[tuple[float, int]]]
"""By the number of the branch's own waits that had ended: moments in seconds since the beginning, and how often each
was read."""


def _parsed(text: str) -> Runs:
    """Parse the readings of one branch by one package; the header has checked the text."""
    runs: Runs = {}
    waits = 0
    for token in text.split():
        if token.startswith("@"):
            waits = int(token[1:])
        else:
            moment, _, count = token.partition("*")
            runs.setdefault(waits, []).append((float(moment), int(count or 1)))
    return runs


def _written(runs: Runs) -> str:
    return " ".join(_tokens(runs))


def _tokens(runs: Runs) -> Iterator[str]:
    for waits, moments in runs.items():
        if waits:
            yield f"@{waits}"
        for moment, count in moments:
            text = f"{moment:.6f}".rstrip("0").rstrip(".")
            yield f"{text}*{count}" if count > 1 else text


class _Branch:
    """A branch's own waits, and the moment before which it cannot read."""

    __slots__ = ("floor", "waits")

    def __init__(self) -> None:
        self.floor = 0.0
        self.waits = 0


class _Reader:
    """The readings of one branch by one package."""

    __slots__ = ("_count", "_recorded", "_waits", "runs")

    def __init__(self, recorded: Runs) -> None:
        self._recorded = recorded
        self._waits = 0
        self._count = 0
        self.runs: Runs = {}

    def recorded(self, waits: int) -> float | None:
        """Return the recorded reading here, and count it; `None` if the recording has none here."""
        if waits != self._waits:
            self._waits, self._count = waits, 0
        self._count += 1
        count = self._count
        for moment, times in self._recorded.get(waits, ()):
            count -= times
            if count <= 0:
                return moment
        return None

    def note(self, waits: int, moment: float) -> None:
        runs = self.runs.setdefault(waits, [])
        if runs and runs[-1][0] == moment:
            runs[-1] = moment, runs[-1][1] + 1
        else:
            runs.append((moment, 1))


class Readings:
    """The readings of one clock: the session's, or the separate clock of a tool's code. Thread-safe.

    `log` has the readings of the recording, and room for this run's; `place` is the address of the tool, empty for the
    session.
    """

    def __init__(self, log: ReadingLog, place: str = "") -> None:
        self._log = log
        self._prefix = f"{place} > " if place else ""
        self._branches: dict[str, _Branch] = {}
        self._readers: dict[tuple[str, str], _Reader] = {}
        self._lock = Lock()

    def read(self, branch: str, package: str, passed: float) -> float:
        """Return the moment that a branch reads, in seconds since the beginning.

        `package` is the top-level name of the module that reads; the clock has `passed` so many seconds in this run.
        """
        with self._lock:
            mine = self._branches.get(branch) or self._branches.setdefault(branch, _Branch())
            reader = self._readers.get((branch, package)) or self._begin(branch, package)
            recorded = reader.recorded(mine.waits)
            # What the branch itself has waited is certain, also in a program that waits more often than it did.
            moment = max(passed if recorded is None else recorded, mine.floor)
            mine.floor = moment
            reader.note(mine.waits, moment)
            return moment

    def waited(self, branch: str, seconds: float) -> None:
        """Note that a branch has had its own wait."""
        with self._lock:
            mine = self._branches.get(branch) or self._branches.setdefault(branch, _Branch())
            mine.waits += 1
            mine.floor = round(mine.floor + seconds, 6)

    def made(self) -> dict[str, str]:
        """Return the readings so far, as text, by branch and package."""
        with self._lock:
            return {self._key(*key): _written(reader.runs) for key, reader in self._readers.items()}

    def _begin(self, branch: str, package: str) -> _Reader:
        recorded = self._log.recorded(self._key(branch, package))
        return self._readers.setdefault((branch, package), _Reader(recorded))

    def _key(self, branch: str, package: str) -> str:
        return f"{self._prefix}{branch} {package}"


class ReadingLog:
    """The readings of one session, of all of its clocks. `recorded` is from the header of the recording."""

    def __init__(self, recorded: Mapping[str, str] | None = None) -> None:
        self._recorded = dict(recorded or {})
        self._clocks: list[Callable[[], dict[str, str]]] = []
        self.is_interleaved = False
        """True if a branch waited while another one ran, so that its readings depend on which was faster."""

    def readings(self, place: str = "") -> Readings:
        """Return the readings of a clock: of a tool's, by its address, or of the session's (empty)."""
        readings = Readings(self, place)
        self._clocks.append(readings.made)
        return readings

    def recorded(self, key: str) -> Runs:
        """Return the recorded readings of one branch by one package."""
        text = self._recorded.get(key)
        return _parsed(text) if text is not None else {}

    def diverged(self) -> dict[str, tuple[str, str]]:
        """Return the readings of this run that are not the recorded ones, each after those, by branch and package."""
        made = {key: text for clock in self._clocks for key, text in clock().items()}
        return {key: (text, made[key]) for key, text in self._recorded.items() if key in made and made[key] != text}

    def made(self) -> dict[str, str]:
        """Return the readings to record: this run's if they depend on the schedule, and the recorded ones."""
        if not self.is_interleaved:
            return self._recorded
        made = dict(self._recorded)
        for clock in self._clocks:
            made |= clock()
        return dict(sorted(made.items()))
