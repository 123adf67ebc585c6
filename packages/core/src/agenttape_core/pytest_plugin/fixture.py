"""The fixture `cassette`: a test's view of its cassette."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenttape_core.engine import Mode
from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.yaml_load import load_yaml
from agenttape_core.format.yaml_text import dump_mapping
from agenttape_core.matching import Ignored
from agenttape_core.pytest_plugin.naming import safe
from agenttape_core.redaction import Redactor
from agenttape_core.schema import Interaction, Plain
from agenttape_core.session import Report, Session, plain_value, runs
from agenttape_core.storage import SNAPSHOT, is_pending, stem_of
from agenttape_core.storage.atomic import make_folder, replace_file
from agenttape_core.tools.reading.provider_calls import MODELS, model_call

if TYPE_CHECKING:
    from agenttape_core.checks import AnyCheck, Checked

# -- Snapshots: the results of a test when it was recorded.


class Snapshots:
    """The snapshots of one test.

    The session's redactor replaces secrets as in the cassette; with `compares`, values are compared with the recorded
    ones even if the session records.
    """

    def __init__(self, session: Session, command: str, *, compares: bool = False) -> None:
        self._session = session
        self._compares = compares
        self._again = f"{command} --rerecord"
        self._made: dict[str, str] = {}

    def compare(self, value: Any, name: str, ignore: Collection[str] = ()) -> None:
        """Compare a value with the recorded one, or note it where the session records.

        Paths in `ignore` are neither compared nor written. Raises `ConfigurationError` if the cassette is at a URL, or
        a path is none, and `AssertionError` if they differ, or there's no recorded one.
        """
        __tracebackhide__ = True
        path = self._path(self._session.path, name)
        if isinstance(ignore, str):
            raise ConfigurationError(f"ignore={ignore!r} is a bare string; expected a list such as [{ignore!r}]")
        ignored = Ignored.of(ignore)
        text = _written(self._session.redactor.value(plain_value(value)), ignored)
        if self._session.policy.records and not self._compares:
            self._made[name] = text
            return
        assert path.is_file(), f"there's no snapshot {shown_path(path)}\n  record it:  {self._again}"
        recorded = path.read_text(encoding="utf-8")
        if ignore:
            with suppress(Malformed, ValueError):  # a file that isn't a snapshot differs, and the difference shows it
                loaded = load_yaml(recorded.encode())
                recorded = (
                    _written(loaded["value"], ignored) if isinstance(loaded, dict) and "value" in loaded else recorded
                )
        if self._session.setup.candidates is not None and recorded != text:
            return  # a candidate has other words: the table says so
        lines = difflib.unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "now", lineterm="", n=2)
        assert recorded == text, "\n".join(
            [f"the value differs from {shown_path(path)}", *lines, f"record it again:  {self._again}"]
        )

    def write(self) -> None:
        """Write the values that were noted, beside the recording that they belong to: it may wait for review."""
        session = self._session
        waits = isinstance(session.written, Path) and is_pending(session.written.name)
        for name, text in self._made.items():
            path = self._path(session.written if waits and session.written is not None else session.path, name)
            make_folder(path.parent)
            replace_file(path, text.encode("utf-8"))

    def _path(self, cassette: Path | str, name: str) -> Path:
        if not isinstance(cassette, Path):
            raise ConfigurationError(f"snapshots are kept next to the cassette, and {cassette} isn't a local file")
        return cassette.with_name(f"{stem_of(cassette)}{f'.{safe(name)}' if name else ''}{SNAPSHOT}")


def _written(value: Plain, ignored: Ignored) -> str:
    return dump_mapping({"value": ignored.stripped(value)})


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the run."""

    name: str
    arguments: Any  # its arguments by name, or the bare string of a tool that takes one
    status: str  # `returned`, `raised` or `streamed`
    result: Any  # the returned value as plain data, or the message of the raised error

    def __str__(self) -> str:
        given = self.arguments
        listed = ", ".join(f"{key}={value!r}" for key, value in given.items()) if isinstance(given, Mapping) else given
        return f"{self.name}({listed})"


class TestCassette:
    """The cassette of a test: the calls of its agent so far, and assertions about them.

    Everything here is about *this* run, replayed or executed, in the order of the run.

    Args:
        session: The session of the test.
        nodeid: The test.
        command: The command that runs it.
        is_apart: Whether it's run for real only to be compared: its recording is thrown away.
    """

    __test__ = False  # not a class of tests for pytest

    def __init__(self, session: Session, nodeid: str, command: str, *, is_apart: bool = False) -> None:
        self.session = session
        """The session, for everything else."""
        self.replayed_by_models: Sequence[Interaction] = ()
        """The replayed recordings of calls that are billed by counted tokens; known when the test has ended."""
        self.uncounted = 0
        """The number of the others that are billed."""
        self.saved_seconds = 0.0
        """The recorded duration of the replayed calls; known when the test has ended."""
        self.nodeid = nodeid
        self.checked: list[Checked] = []
        """The results of checks of the run so far."""
        self._snapshots = Snapshots(session, command, compares=is_apart)
        self._happened: list[Interaction] | None = None

    def __repr__(self) -> str:
        return f"<cassette {self._shown_path()}, mode {self.mode.value}: {self.report}>"

    @property
    def path(self) -> Path | str:
        """The file, or its URL."""
        return self.session.path

    @property
    def mode(self) -> Mode:
        """The mode of the session."""
        return self.session.mode

    @property
    def report(self) -> Report:
        """The report on replayed, executed and missed calls; unused ones are known when the test has ended."""
        return self.session.report

    @property
    def interactions(self) -> list[Interaction]:
        """The calls of the run so far, redacted as in the file; temporary folders belong to this run."""
        happened = self._happened if self._happened is not None else runs.happened(self.session)
        return list(map(self.in_places, happened))

    @property
    def replayed(self) -> list[Interaction]:
        """The replayed recordings, in the order of the run."""
        return [self.session.source.interaction(call_record.number) for call_record in self.report.replayed]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls of tools."""
        return [_tool_call(item) for item in self.interactions if item.kind == "tool"]

    @property
    def nodes(self) -> list[str]:
        """The nodes of graphs that have run, in the order of their steps."""
        return [step.name for step in self.session.ledger.steps_taken("node")]

    @property
    def final_output(self) -> str:
        """The text of the last answer of a model in the run."""
        from agenttape_core.tools.reading.messages import last_answer

        return last_answer(self.interactions)

    def check(self, *checks: AnyCheck) -> Checked:
        """Check the run so far, and fail if it does not pass.

        Args:
            checks: What must be true of it; see `agenttape_core.checks`.

        Returns:
            The result, with warnings and scores.
        """
        __tracebackhide__ = True
        from agenttape_core.checks.checking import checked, told

        result = checked(self, checks)
        self.checked.append(result)
        if result.has_failed:
            raise AssertionError(told(result))
        return result

    def in_places(self, item: Interaction) -> Interaction:
        """Return a call with the temporary folders of this run, as `interactions` do."""
        redactor = self.session.redactor
        return _in_places(item, redactor) if redactor.places else item

    def assert_tool_calls(self, expected: Sequence[str], *, any_order: bool = False) -> None:
        """Assert which tools were called, how often and in which order.

        Args:
            expected: The names of all calls.
            any_order: Whether any order will do.
        """
        __tracebackhide__ = True
        found = [call.name for call in self.tool_calls]
        wanted = list(expected)
        same = sorted(found) == sorted(wanted) if any_order else found == wanted
        assert same, self._differ("tool calls", wanted, list(map(str, self.tool_calls)))

    def assert_tool_args(self, name: str, /, *, call: int = 0, **expected: Any) -> None:
        """Assert the arguments of a tool call; arguments that are not named here may be anything.

        Args:
            name: The tool.
            call: Which of its calls, counted from 0; -1 is the last.
            expected: The arguments.
        """
        __tracebackhide__ = True
        calls = [made for made in self.tool_calls if made.name == name]
        there = list(map(str, calls or self.tool_calls))  # of a mistyped name, all that were called
        assert -len(calls) <= call < len(calls), self._differ(f"call {call} of {name}", "a call", there)
        found = calls[call].arguments
        given = found if isinstance(found, Mapping) else {"": found}
        wrong = [key for key in expected if key not in given or given[key] != expected[key]]
        differing = {key: given.get(key, "<not given>") for key in wrong}
        assert not differing, self._differ(
            f"arguments of call {call} of {name}", {key: expected[key] for key in wrong}, differing
        )

    def assert_nodes(self, expected: Sequence[str], *, any_order: bool = False) -> None:
        """Assert which nodes of graphs have run, how often and in which order.

        Nodes of one superstep are in the order of the graph, whichever was faster.

        Args:
            expected: Their names.
            any_order: Whether any order will do.
        """
        __tracebackhide__ = True
        found, wanted = self.nodes, list(expected)
        same = sorted(found) == sorted(wanted) if any_order else found == wanted
        assert same, self._differ("nodes", wanted, found)

    def assert_final_output(self, expected: str | None = None, *, contains: str | None = None) -> None:
        """Assert the text of the last answer of a model in the run.

        Args:
            expected: The whole text.
            contains: A part of it.

        Raises:
            ConfigurationError: If neither is given.
        """
        __tracebackhide__ = True
        found = self.final_output
        if expected is None and contains is None:
            raise ConfigurationError("assert_final_output: expected a text, or a part of it as contains=...")
        if expected is not None:
            assert found == expected, self._differ("final output", expected, found)
        if contains is not None:
            assert contains in found, self._differ("final output", f"... {contains} ...", found)

    def assert_matches_snapshot(self, value: Any, name: str = "", *, ignore: Collection[str] = ()) -> None:
        """Assert that a value is equal to the one when the test was recorded.

        It's kept next to the cassette, redacted, as `CASSETTE.snapshot.yaml` or `CASSETTE.NAME.snapshot.yaml`. A test
        that records and passes writes it.

        Args:
            value: A result of the agent: plain data, or a value of a registered codec.
            name: The name of the value, where a test has several.
            ignore: Paths in the value that are neither compared nor written, such as `**.id`.
        """
        __tracebackhide__ = True
        self._snapshots.compare(value, name, ignore)

    def assert_all_replayed(self) -> None:
        """Assert that every call so far was replayed, and none made for real."""
        __tracebackhide__ = True
        executed = [
            f"{call_record.kind} {call_record.name} at {call_record.address}" for call_record in self.report.recorded
        ]
        assert not executed, self._differ("new calls", [], executed)

    def end(self, *, counts: bool) -> None:
        """Keep the facts that are known only while the session is open.

        Args:
            counts: Whether the costs of calls are needed.
        """
        report, source = self.session.report, self.session.source
        replayed = report.replayed
        if report.recorded:
            self._happened = runs.happened(self.session)  # else it can be read from the cassette at any time
        if counts:
            billed = [call_record.number for call_record in replayed if call_record.kind in MODELS]
            read = self.session.ledger.are_metered
            counted = [
                number
                for number in billed
                if (read[number] if number in read else source.outcome(number).usage is not None)
            ]
            asked = [source.interaction(call_record.number) for call_record in replayed if call_record.kind == "http"]
            over_http = [call for call in map(model_call, asked) if call.kind in MODELS]
            self.replayed_by_models = [*map(source.interaction, counted), *over_http]
            self.uncounted = len(billed) - len(counted)
        timings = [self.session.recordings.timing_of(call_record.number) for call_record in replayed]
        self.saved_seconds = sum([timing.duration_ms for timing in timings if timing is not None]) / 1000

    def write_snapshots(self) -> None:
        """Write the snapshots of a test that has recorded and passed."""
        self._snapshots.write()

    def _differ(self, what: str, expected: Any, found: Any) -> str:
        lines = (f"expected  {expected}", f"found     {found}")
        return "\n  ".join([f"{what} of the run differ from what is expected ({self._shown_path()})", *lines])

    def _shown_path(self) -> str:
        return os.path.relpath(self.path) if isinstance(self.path, Path) else self.path


def _in_places(item: Interaction, redactor: Redactor) -> Interaction:
    """Return a call with the paths of this run, which the test uses, instead of their pseudonyms."""
    return Interaction.model_validate(redactor.with_places(item.model_dump()))


def _tool_call(item: Interaction) -> ToolCall:
    outcome = item.outcome
    result = outcome.error.message if outcome.error is not None else outcome.value
    return ToolCall(item.name, item.request.get("arguments"), outcome.status, result)
