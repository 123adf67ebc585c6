"""Record and replay a command: the calls of each of its Python processes, in a cassette each."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import distributions, entry_points
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agenttape_core.engine import Mode, parse_mode
from agenttape_core.errors import CassetteError, CassetteNotFoundError, ConfigurationError
from agenttape_core.guard import of_program
from agenttape_core.lifecycle.entry_points import GROUP, HTTP_GROUP, SERVER_GROUP
from agenttape_core.lifecycle.missing import FRAMEWORKS
from agenttape_core.lifecycle.open_session import refuse_misspelled
from agenttape_core.lifecycle.request import SELECTING
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import new_key
from agenttape_core.schema import HASH_SEED
from agenttape_core.session.hash_seed import hash_seed
from agenttape_core.settings import Settings, load_settings
from agenttape_core.storage import Cassette, cassette_path, open_cassette, real_location, stem_of
from agenttape_core.storage.lock import locked
from agenttape_core.tools.processes.command import Command, command_of
from agenttape_core.tools.processes.report import Merged, Outcome, findings_of, merged, remove
from agenttape_core.tools.processes.run_folder import (
    ProcessReport,
    RunConfig,
    RunFolder,
    SessionEnd,
    cassettes_of,
    packed,
    unpacked,
)
from agenttape_core.tools.processes.startup.agenttape_commands import FOLDER, RUN
from agenttape_core.tools.processes.startup.agenttape_startup import (
    ADDRESS,
    ANSWERED_OTHERWISE,
    BLOCKED,
    NOT_RUN,
    NOTES,
    OF_REPLAY,
)

# -- Run the command itself, with its own signals and its own exit code.


_STDERR = 2
_OUTPUT = ("stdout", "stderr")
_PATIENCE, _PAUSE = 5.0, 0.02
"""Seconds to wait for the processes that a command leaves behind, and between two looks at them."""
_GRACE = 0.5
"""Seconds after which a termination is forwarded: a signal to a whole group has reached the command already, and many
servers take a second signal as an order to stop immediately. One whose session has ended gets the first one only if it
still lives after the patience above."""
_KILLED = 128  # the number that shells add to the number of the signal which ended a command


def run_child(
    command: Sequence[str],
    folder: Path,
    *,
    extra: Mapping[str, str],
    apart: bool,
    is_replay: bool = False,
    keeps_output: bool = False,
) -> int:
    """Run a command to its end, and return its exit code.

    An interruption also reaches the command from the terminal; this waits for the command's reaction. A termination is
    forwarded to it. With `apart`, its standard output goes to the standard error; with `keeps_output`, its output goes
    to files in the folder, and it reads no input. Raises `ConfigurationError` if it cannot be started.
    """
    children: list[subprocess.Popen[bytes]] = []
    streams: dict[str, Any] = {"stdout": _STDERR if apart else None}
    with _forwarding_signals(children, RunFolder(folder)), ExitStack() as files:
        if keeps_output:
            streams = {name: files.enter_context((folder / name).open("wb")) for name in _OUTPUT}
            streams["stdin"] = subprocess.DEVNULL
        try:
            child = subprocess.Popen(  # noqa: S603 - the very command that the user has asked for
                list(command), env=_environment(folder, extra, is_replay=is_replay), **streams
            )
        except OSError as error:
            raise ConfigurationError(f"cannot start {command[0]}: {error.strerror or error}") from None
        children.append(child)
        code = child.wait()
    return _KILLED - code if code < 0 else code


def _environment(folder: Path, extra: Mapping[str, str], *, is_replay: bool) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != ADDRESS}
    paths = [FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, **extra, RUN: f"{OF_REPLAY if is_replay else ''}{folder}", "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def _forwarding_signals(children: Sequence[subprocess.Popen[bytes]], run_folder: RunFolder) -> Iterator[None]:
    """Forward signals to the children inside the block."""
    forwarded: set[subprocess.Popen[bytes]] = set()

    def leave(number: int, frame: Any) -> None:
        pass

    def forward(number: int, frame: Any) -> None:  # noqa: ARG001 - the signature of handlers
        for child in children:
            is_first = child not in forwarded
            forwarded.add(child)
            later = threading.Timer(_GRACE, _end, (child, number, run_folder if is_first else None))
            later.daemon = True
            later.start()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Not SIG_IGN, which a program that is started would inherit; and what is ignored already is for it, too.
    handlers = {signal.SIGINT: leave, signal.SIGTERM: forward}
    before = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def _end(child: subprocess.Popen[bytes], number: int, run_folder: RunFolder | None) -> None:
    """Send a child a signal, unless it ends on its own."""
    deadline = time.monotonic() + _PATIENCE
    while run_folder is not None and time.monotonic() < deadline:
        if child.poll() is not None or not _is_ending(child.pid, run_folder):
            break
        time.sleep(_PAUSE)
    child.send_signal(number)  # which nobody gets who has ended


def _is_ending(pid: int, run_folder: RunFolder) -> bool:
    """Return whether a process has ended its session: Python takes it down, and a signal would kill it meanwhile."""
    return any(report.pid == pid and report.state == "ended" for report in run_folder.reports())


def settled(run_folder: RunFolder) -> list[ProcessReport]:
    """Return the reports of a command's processes, once those that it left behind have ended or taken too long."""
    deadline = time.monotonic() + _PATIENCE
    reports = run_folder.reports()
    while any(report.state == "open" and _lives(report.pid) for report in reports) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        reports = run_folder.reports()
    return reports


def _lives(pid: int) -> bool:
    if sys.platform == "win32":  # os.kill would end the process there
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


_NAME = re.compile(r"[\w.-]+")  # the name at the beginning of a requirement
_OURS = ("agenttape_core.boundaries", "agenttape_core.integration", "agenttape_core.transports")


class _Finished(NamedTuple):
    code: int
    reports: list[ProcessReport]
    notes: list[str]
    blocked: list[str]
    not_run: list[str]
    answered_otherwise: list[str]
    run_id: str
    output: Sequence[str]
    end: SessionEnd | None


def run(
    given: Sequence[str] | Command,
    *,
    mode: str | Mode,
    cassette: str | None,
    options: Mapping[str, Any],
    apart: bool = False,
    is_check: bool = False,
    max_usd: float | None = None,
    oracle: str = "",
    vary: Variation | None = None,
) -> Outcome:
    """Run a command with a session in each of its Python processes.

    `given` may name a function, or be the command. With mode `once`, the command is replayed if any process of it has a
    cassette; `cassette` is by default the program's name. With `apart`, its standard output goes to the standard error;
    with `is_check`, it was recorded just now, so that recording again doesn't remove a difference.

    `max_usd` is the most that the calls of models of one process may cost; `oracle` is a file or the URL of an oracle,
    which answers calls of tools without a recording; `vary` is the difference between the main process's replay and a
    plain one, which keeps the command's output.

    Raises `ConfigurationError` if the command, an option or a setting is wrong, `CassetteNotFoundError` if there is no
    cassette to replay, and `CassetteError` if a cassette cannot be read or written, or is being recorded elsewhere; the
    recordings are kept.
    """
    command = given if isinstance(given, Command) else command_of(given)
    path = path_of(cassette or command.name)
    mode = _effective(parse_mode(str(mode)), path)
    records = mode is not Mode.REPLAY
    options = {**options, "mode": mode.value}
    settings = _checked(path, options)
    recorded = {} if records else recorded_of(path, command)
    if recorded and not settings.candidate:  # another model may make other calls
        refuse_misspelled(options, SELECTING, [row for one in recorded.values() for row in one.entries], path)
    config = replace(
        _config(path, command, options),
        replays_only=not (records or settings.live or settings.candidate),
        confines=not records and (not settings.live or settings.candidate is not None),
        max_usd=max_usd,
        oracle=oracle,
        varied=packed(vary) if vary is not None else "",
    )
    config = replace(config, remedies=([], [])) if is_check else config
    # So that no other session records it meanwhile.
    with locked(real_location(path), "record") if records else nullcontext():
        finished = _run_command(command, config, settings, apart=apart)
    code, reports, notes, blocked, not_run, otherwise, run_id, output, end = finished
    keeps = (code == 0 and not not_run) or settings.on_error == "keep"
    made = merged(reports, config, replaces=keeps, derives=not records, waits=settings.review)
    return Outcome(
        command=command.given,
        code=code,
        config=config,
        records=records,
        on_unused="ignore" if settings.candidate and settings.on_unused is None else settings.judges_unused,
        on_unrecorded=settings.on_unrecorded,
        reports=[report for report in reports if not report.is_silent],
        missing=_missing(reports) if records else {},
        made=made,
        removed=_without_process(config, reports, made)
        if mode is Mode.RECORD and keeps and not settings.review
        else [],
        findings=findings_of(reports, {address: _rows(cassette) for address, cassette in recorded.items()}),
        notes=notes,
        blocked=blocked,
        not_run=not_run,
        own=list(dict.fromkeys(own for report in reports for own in report.own)),
        tries=settings.candidate is not None,
        answered_otherwise=[line for each in otherwise for line in each.split("\n")],
        run_id=run_id,
        output=output,
        end=end,
    )


OTEL_RESOURCE = "OTEL_RESOURCE_ATTRIBUTES"
"""Attributes of all that a process reports, `key=value` with commas between, values percent-encoded:
https://opentelemetry.io/docs/specs/otel/resource/sdk/."""


def _watched(settings: Settings, path: Path, *, needs_clients: bool) -> list[str]:
    """Return the modules whose import needs a session: our own, the frameworks, and HTTP clients if they are taped."""
    tapes_http = _was_with_http(path) if settings.http is None else settings.http
    groups = (GROUP, SERVER_GROUP, HTTP_GROUP) if tapes_http else (GROUP, SERVER_GROUP)
    clients = _built_on_frameworks() if needs_clients else ()
    points = (point.name for group in groups for point in entry_points(group=group))
    return sorted({*_OURS, *FRAMEWORKS, *points, *clients})


@cache
def _built_on_frameworks() -> list[str]:
    """Return the packages of distributions that require a framework, such as `langchain_openai`.

    A session makes its candidate, or the errors of its variation, when it opens: with such packages. In a session that
    its own import of the framework opens, the client would be half imported.
    """
    frameworks = {name.replace("_", "-").replace(".", "-") for name in FRAMEWORKS}
    found: list[str] = []
    for each in distributions():
        required = {one[0].lower().replace("_", "-") for one in map(_NAME.match, each.requires or ()) if one}
        if frameworks.isdisjoint(required):
            continue
        packages = {file.parent.parts for file in each.files or () if file.name == "__init__.py"}
        found += (".".join(parts) for parts in packages if parts[:-1] not in packages)
    return found


def _was_with_http(path: Path) -> bool:
    with suppress(CassetteError):  # a broken one is replaced, or is an error of its own
        return any(open_cassette(own).preface.http for _, own in cassettes_of(path))
    return False


def _run_command(command: Command, config: RunConfig, settings: Settings, *, apart: bool) -> _Finished:
    """Run the command."""
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        run_folder = RunFolder(Path(folder))
        needs_clients = bool(settings.candidate or config.varied)  # the session makes one, or the error of one
        watched = (
            [command.session]
            if command.session
            else _watched(settings, Path(config.cassette), needs_clients=needs_clients)
        )
        is_replay = config.options["mode"] == Mode.REPLAY.value
        is_partly_live = is_replay and bool(settings.live or settings.candidate)
        hosts = of_program(settings.hosts, has_live=is_partly_live)
        run_folder.write_config(config, allow_hosts=hosts, watched=watched, command=command.words)
        extra = {HASH_SEED: str(_hash_seed(Path(config.cassette)))}
        run_id = extra["AGENTTAPE_RUN_ID"] = settings.run_id or secrets.token_hex(16)  # one for all its processes
        if is_replay:
            extra["AGENTTAPE_MODE"] = Mode.REPLAY.value
            given = os.environ.get(OTEL_RESOURCE)
            extra[OTEL_RESOURCE] = ",".join(filter(None, [given, f"replay_run_id={quote(run_id)}"]))
        keeps = bool(config.varied)
        code = run_child(
            command.words, run_folder.folder, extra=extra, apart=apart, is_replay=is_replay, keeps_output=keeps
        )
        notes, blocked, not_run, otherwise = map(run_folder.notes, (NOTES, BLOCKED, NOT_RUN, ANSWERED_OTHERWISE))
        reports = settled(run_folder)
        output = [(Path(folder) / name).read_text("utf-8", "replace") for name in _OUTPUT] if keeps else ()
        end = unpacked(said) if (said := run_folder.end()) else None
        return _Finished(code, reports, notes, blocked, not_run, otherwise, run_id, output, end)


def _hash_seed(path: Path) -> int:
    """Return the seed with which the processes start: the recorded one, this process's, or a new one."""
    with suppress(CassetteError):  # a broken one is replaced, or is an error of its own
        for _, own in cassettes_of(path):
            recorded = open_cassette(own).preface.volatile.hash_seed
            if recorded is not None:
                return recorded
    given = hash_seed()
    return given if given is not None else secrets.randbelow(2**32)


def _missing(reports: Sequence[ProcessReport]) -> dict[str, str]:
    """Return the missing packages because of which a command has recorded no call at all, by framework."""
    if any(report.is_busy for report in reports):
        return {}
    return {framework: package for report in reports for framework, package in report.missing.items()}


def path_of(cassette: str) -> Path:
    """Return the cassette of the main process of a command. Raises `ConfigurationError` if it isn't a local file."""
    path = cassette_path(cassette, load_settings().cassette_dir)
    if not isinstance(path, Path):
        raise ConfigurationError(
            f"expected a cassette in a local folder, found {path}\n  the processes of a command write beside it"
        )
    return path.absolute()


def _effective(mode: Mode, path: Path) -> Mode:
    if mode is not Mode.ONCE:
        return mode
    return Mode.REPLAY if any(cassettes_of(path)) else Mode.RECORD


def _checked(path: Path, options: dict[str, Any]) -> Settings:
    use_cassette(path, **options)  # checks them; opens nothing
    return load_settings().chosen(options)


def recorded_of(path: Path, command: Command) -> dict[str, Cassette]:
    """Open all cassettes of a replay, so that a broken one is known before anything runs.

    Returns them by the addresses of their processes. Raises `CassetteNotFoundError` if there are none, and
    `CassetteError` if one cannot be read.
    """
    recorded = {address: open_cassette(own) for address, own in cassettes_of(path)}
    if not recorded:
        remedy = f"record it (calls the real model):  {command.told('record', _called(path))}"
        raise CassetteNotFoundError.unrecorded(_shown(path), remedy)
    return recorded


def _rows(cassette: Cassette) -> list[tuple[int, str, str]]:
    return [
        (row.number, row.fingerprint, f"{row.number:>4}  {row.kind} {row.name} at {row.address}")
        for row in cassette.entries
    ]


def _config(path: Path, command: Command, options: dict[str, Any]) -> RunConfig:
    record = command.told("record", _called(path))
    more = command.told("record --mode update", _called(path))
    return RunConfig(
        cassette=str(path),
        project=str(Path.cwd()),
        options=options,
        key=new_key(),
        remedies=(
            [f"record it (calls the real model):  {record}"],
            [f"record everything again:  {record}", f"record only what changed:  {more}"],
        ),
    )


def _called(path: Path) -> str:
    """Return the name of a cassette for the command line: the bare name, if it is enough."""
    stem = stem_of(path)
    return stem if path_of(stem) == path else str(_shown(path))


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _without_process(config: RunConfig, reports: Sequence[ProcessReport], made: Sequence[Merged]) -> list[Path]:
    """Remove the cassettes of processes that the command no longer has."""
    if not made:
        return []  # nothing was recorded: perhaps it was the wrong command
    kept = {one.path for one in made} | {config.cassette_of(one.address) for one in reports if one.state != "ended"}
    old = [own for _, own in cassettes_of(Path(config.cassette)) if own not in kept]
    for own in old:
        remove(own)
    return old
