"""The header of a recording, at its start and at its end, and the redactor that its key and rules make."""

from __future__ import annotations

import functools
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, cast

from agenttape_core.errors import ConfigurationError
from agenttape_core.freeze import TICKING
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.locks import cached_property
from agenttape_core.on_demand import load_late
from agenttape_core.redaction import Rule
from agenttape_core.redaction.detection.encoded import tells_pseudonym
from agenttape_core.redaction.path_placeholders import Places
from agenttape_core.redaction.rules import keeping
from agenttape_core.schema import Freeze, Header, Plain, Redaction, Volatile
from agenttape_core.session.hash_seed import hash_seed
from agenttape_core.settings import Settings
from agenttape_core.side_effects import register_frameworks
from agenttape_core.storage import Location, stem_of

if TYPE_CHECKING:
    from agenttape_core.redaction import Redactor
    from agenttape_core.scheduling import Order
    from agenttape_core.schema import Scheduled, StepTiming, Timing
    from agenttape_core.session.run_input import RunInput

# -- The packages whose versions a cassette records: those that can change a run's requests and answers.

_distributions: dict[str, str] = {
    "agenttape_core": "agenttape-core",
    # Clients of providers belong to no integration: any framework may call them, or the program itself.
    "anthropic": "anthropic",
    "openai": "openai",
}


def register_packages(distributions: Mapping[str, str]) -> None:
    """Name the versions of packages in the header of each cassette that is recorded while they are imported.

    An integration registers itself and the libraries it records, so that `agenttape check --stale` sees changes. The
    content of these packages' objects counts as part of the program: they connect the program's own objects.

    Args:
        distributions: The names of distributions by the modules whose import shows that they are in use.
    """
    _distributions.update(distributions)
    register_frameworks(distributions)


def package_versions() -> dict[str, str]:
    """Return the versions of the registered packages that are imported, by the names of their distributions."""
    load_late()
    imported = sorted({name for module, name in list(_distributions.items()) if module in sys.modules})
    versions = {name: _version(name) for name in imported}
    return {name: number for name, number in versions.items() if number is not None}


@functools.cache  # it reads files: a good part of the time that a session takes
def _version(distribution: str) -> str | None:
    """Return the version of a distribution that is imported; `None` if it was imported from a source tree."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


class _LateRedactor:
    """Stands for a redactor until a text is searched: a replay whose requests hold no secrets searches none."""

    def __init__(self, make: Callable[[], Redactor]) -> None:
        self._make = make

    def rehydrate(self, plain: Plain) -> Plain:
        """Return plain data as `Redactor.rehydrate` does: without pseudonyms it stays."""
        return self._made.rehydrate(plain) if "_made" in vars(self) or tells_pseudonym(plain) else plain

    def rehydrate_chunks(self, chunks: Sequence[Plain]) -> Iterator[Plain]:
        """Return the chunks of a stream as `Redactor.rehydrate_chunks` does."""
        if "_made" in vars(self) or tells_pseudonym(list(chunks)):
            return self._made.rehydrate_chunks(chunks)
        return iter(chunks)

    def with_places(self, plain: Plain) -> Plain:
        """Return plain data as `Redactor.with_places` does."""
        return self._made.with_places(plain) if plain else plain

    @cached_property
    def _made(self) -> Redactor:
        return self._make()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


def redactor_for(
    path: Location,
    prior: Header | None,
    redact: bool | Sequence[Rule],
    settings: Settings,
    *,
    key: str | None = None,
    places: Places | None = None,
    writes: bool = False,
) -> Redactor:
    """Return the redactor of a session: with the key of its cassette, so that equal secrets stay equal.

    Args:
        path: The cassette.
        prior: The header of the recordings to match; `None` if there are none.
        redact: The user's rules, or whether to redact at all.
        settings: The settings of the project, with its rules and the key from the environment.
        key: The key that keeps pseudonyms equal to earlier ones; a key from the environment wins over it.
        places: Folders that are others in each run.
        writes: Whether the session may add to the cassette. Then the cassette, which may come from a stranger, doesn't
            decide which secrets are looked for.

    Raises:
        ConfigurationError: If the cassette was recorded with a key or rules that are not given now.
    """
    own = tuple(redact) if isinstance(redact, list | tuple) else ()
    if not isinstance(redact, bool | list | tuple) or (own and not all(isinstance(rule, Rule) for rule in own)):
        raise ConfigurationError(f"redact={redact!r}: expected True, False or a list of agenttape_core.Rule")
    named = {rule.name for rule in own}
    given = [*[rule for rule in settings.redaction_rules if rule.name not in named], *own]
    off: Sequence[str] = [rule.name for rule in given if rule.keep]
    rules = [rule for rule in given if not rule.keep] if redact is not False else []
    key = settings.redaction_key or key
    if prior is not None:
        missing = set(prior.redaction.rules) - {rule.name for rule in rules}
        if missing and redact is not False:
            raise ConfigurationError(
                f"{path} was recorded with the redaction rules {sorted(missing)}, which this session does not have\n"
                "  pass the same redact=[...] as when it was recorded, or keep the rules in [tool.agenttape]\n"
                "  redaction_rules; without them its requests cannot match"
            )
        if prior.redaction.key is None and key is None:
            raise ConfigurationError(
                f"{path} was recorded with a redaction key that is not in the file\n"
                "  set AGENTTAPE_REDACTION_KEY to the key it was recorded with"
            )
        key = prior.redaction.key or key
        if prior.redaction.off or off:
            off = _off_as(path, prior, off, writes=writes)
    forms = prior is None or prior.redaction.forms

    def make() -> Redactor:
        from agenttape_core.redaction import Redactor, new_key

        return Redactor(
            key or new_key(),
            rules=rules,
            enabled=redact is not False,
            places=places if places is not None else {},
            off=off,
            forms=forms,
        )

    return cast("Redactor", _LateRedactor(make))


def _off_as(path: Location, prior: Header, off: Sequence[str], *, writes: bool) -> Sequence[str]:
    """Return the kinds that were not looked for when a cassette was recorded: its requests match only so."""
    more = set(prior.redaction.off) - set(off)
    if more and writes:
        raise ConfigurationError(
            f"{path} was recorded without looking for {sorted(more)}, and this session, which may add to it, does so\n"
            f"  keep them as before, {keeping(sorted(prior.redaction.off))}, or record all of it again"
        )
    return prior.redaction.off


def new_header(
    path: Location,
    prior: Header | None,
    settings: Settings,
    redactor: Redactor,
    *,
    replaces: bool,
    clock: float | None = None,
) -> Header:
    """Return the header of a session that begins.

    `prior` is the header of the present cassette, if there is one; with `replaces`, the recording replaces that.
    `clock` is the time at which the clock of an imported program stood still, in seconds since the epoch.
    """
    if prior is not None and not replaces:
        given = {"ignore": settings.ignore and list(settings.ignore), "http": settings.http}
        return prior.model_copy(update={name: value for name, value in given.items() if value is not None})
    name = stem_of(path)
    now = time.time()
    # An imported program drew nothing from a seed of ours.
    seed = f"agenttape:{name}" if settings.freeze and clock is None else ""
    is_timed = not {"clock", TICKING}.isdisjoint(settings.freeze)
    return Header(
        name=name,
        tags=[redactor.text(tag) for tag in settings.tags],
        ignore=list(settings.ignore or ()),
        http=settings.http if settings.http is not None else prior is not None and prior.http,
        freeze=Freeze(kinds=sorted(settings.freeze), seed=seed),
        redaction=Redaction(
            key=None if redactor.key == settings.redaction_key else redactor.key,
            rules=[rule.name for rule in redactor.rules],
            off=sorted(redactor.off),
            forms=redactor.forms,
            places=redactor.enabled,
        ),
        volatile=Volatile(
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
            clock=(round(now, 6) if clock is None else clock) if is_timed else None,
            zone=zone_at(now) if is_timed and clock is None else "",
            python=platform.python_version(),
            hash_seed=hash_seed(),
        ),
    )


def with_environment(header: Header, learned: Mapping[str, str | None], redactor: Redactor) -> Header:
    """Return a header with the environment variables that a run read added to it.

    `learned` has the real values; the redactor recognizes secrets by the value or by the name of the variable.
    """
    redacted: dict[str, Any] = {}
    for name, value in learned.items():
        redacted |= cast("dict[str, Any]", redactor.value({name: value}))
    environment = {**header.freeze.environment, **redacted}
    freeze = header.freeze.model_copy(update={"environment": dict(sorted(environment.items()))})
    return header.model_copy(update={"freeze": freeze})


def with_beginning(header: Header, run_id: str, begun: RunInput | None, redactor: Redactor, *, anew: bool) -> Header:
    """Return a header with the recorded run and its input, which with `anew` replaces an earlier one."""
    update: dict[str, Any] = {"run_id": run_id}
    changes: dict[str, Any] = {}
    if begun is not None and (header.input is None or anew):
        update["entry"] = begun.entry.model_copy(update={"configurable": redactor.value(begun.entry.configurable)})
        changes["input"] = redactor.value(begun.input)
    return header.model_copy(update={**changes, "volatile": header.volatile.model_copy(update=update)})


def with_ends(header: Header, ends: Sequence[list[str]], at_once: Sequence[Scheduled]) -> Header:
    """Return a header that holds more of the order in which concurrent calls ended that were observed."""
    volatile = header.volatile
    update = {"turns": [*volatile.turns, *ends], "schedule": [*volatile.schedule, *at_once]}
    return header.model_copy(update={"volatile": volatile.model_copy(update=update)})


def with_order(header: Header, order: Order) -> Header:
    """Return a header that holds the order of a run."""
    update: dict[str, Any] = {
        "turns": [],
        "schedule": [],
        "threads": "",
        "loose": order.unordered,
        "admissions": order.admissions,
    }
    return header.model_copy(update={"volatile": header.volatile.model_copy(update=update)})


def with_readings(header: Header, readings: Mapping[str, str]) -> Header:
    """Return a header that holds what interleaved branches of the run have read from the frozen clock."""
    return header.model_copy(update={"volatile": header.volatile.model_copy(update={"readings": dict(readings)})})


def finished_header(
    header: Header, timings: Mapping[int, Timing], steps: Mapping[int, StepTiming] | None = None
) -> Header:
    """Return the header of an ended session, with the `timings` and `steps` of earlier records that stay."""
    update = {"packages": package_versions(), "timings": dict(timings), "steps": dict(steps or {})}
    return header.model_copy(update={"volatile": header.volatile.model_copy(update=update)})


# -- The local time zone of a recording and of its replay.
#
# A frozen clock is a moment. What `datetime.now()` shows of a moment depends on the zone of the process, which no
# session can set for it: the zone belongs to the machine, as a file or as `TZ`. So a replay in another zone reports
# that it is.

_OFFSET = Lazy(r"([+-])(\d\d)(\d\d)(?: \S+)?")
_UTC = "+0000"


def zone_at(moment: float) -> str:
    """Return the local zone of this process at a moment, as `+0900 JST`."""
    local = time.localtime(moment)
    return f"{time.strftime('%z', local)} {local.tm_zone}"


def another_zone(recorded: str, moment: float | None) -> str:
    """Return how a time zone differs from the recorded one, and how to replay in that one; "" if it doesn't.

    `recorded` is empty if it is not known; `moment` is the frozen moment at which the recording began, `None` if its
    clock is not frozen.
    """
    found = _OFFSET.fullmatch(recorded)
    if found is None or moment is None:
        return ""
    now = zone_at(moment)
    if now.partition(" ")[0] == recorded.partition(" ")[0]:
        return ""
    sign, hours, minutes = found.groups()
    # In TZ, the offset is what has to be added to the local time: the other way round.
    posix = f"'<{sign}{hours}{minutes}>{'-' if sign == '+' else '+'}{hours}:{minutes}'"
    variable = "UTC" if recorded.startswith(_UTC) else posix
    return f"recorded in the time zone {recorded}, replayed in {now}: local times differ; replay with TZ={variable}"
