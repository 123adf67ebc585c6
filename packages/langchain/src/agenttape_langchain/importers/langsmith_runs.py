"""Exported LangSmith runs as a tree, with their inputs, outputs and durations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agenttape_core.integration import ExecutedCall, Position
from agenttape_core.integration.importing import expect_list, expect_mapping, malformed
from agenttape_langchain.address import own_tags, placement


@dataclass(slots=True)
class ForeignRun:
    """A run.

    Args:
        plain: The exported run.
        above: The run that it belongs to, if that is exported.
        position: Its position in the run tree.
        crossing: Its interaction, if it has become one.
    """

    plain: Mapping[str, Any]
    above: ForeignRun | None = None
    position: Position = field(default_factory=Position)
    crossing: ExecutedCall | None = None

    @property
    def place(self) -> str:
        """Its place in a report."""
        return f"run {self.plain['id']}"

    @property
    def kind(self) -> str:
        """Its type, such as `llm`, `tool`, `retriever` or `chain`."""
        return str(self.plain.get("run_type"))

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.plain.get("name") or "run")

    @property
    def class_name(self) -> str:
        """The class of its object if the export has it, or else its name."""
        serialized = _mapping(self.plain.get("serialized"))
        named = _items(serialized.get("id"))
        return str(serialized.get("name") or (named[-1] if named else None) or self.name)

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Its inputs."""
        return _mapping(self.plain.get("inputs"))

    @property
    def outputs(self) -> Mapping[str, Any]:
        """Its outputs."""
        return _mapping(self.plain.get("outputs"))

    @property
    def extra(self) -> Mapping[str, Any]:
        """Further facts about it."""
        return _mapping(self.plain.get("extra"))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata, including inherited ones."""
        return _mapping(self.extra.get("metadata"))

    @property
    def tags(self) -> list[str]:
        """Its tags, including inherited ones."""
        return [str(tag) for tag in _items(self.plain.get("tags"))]

    @property
    def own_tags(self) -> list[str]:
        """The tags that were meant for this run."""
        return own_tags(self.tags, self.above.tags if self.above is not None else ())

    @property
    def error(self) -> str:
        """The error that it failed with: its `repr`, and mostly its traceback."""
        return str(self.plain.get("error") or "")

    @property
    def doubt(self) -> str:
        """The part of its request that is guessed, and why; empty if none is."""
        return str(self.plain.get("doubt") or "")

    @property
    def was_streamed(self) -> bool:
        """Return whether its answer came in tokens."""
        return any(_mapping(event).get("name") == "new_token" for event in _items(self.plain.get("events")))

    @property
    def duration_ms(self) -> float:
        """Its duration in milliseconds; 0 if the export does not have it."""
        start, end = _time(self.plain.get("start_time")), _time(self.plain.get("end_time"))
        return max((end - start).total_seconds() * 1000, 0.0) if start is not None and end is not None else 0.0

    @property
    def crossing_around(self) -> ExecutedCall | None:
        """The innermost interaction that it is part of."""
        above = self.above
        while above is not None and above.crossing is None:
            above = above.above
        return above.crossing if above is not None else None


def runs_of(path: Path, data: Any, root: Position) -> list[ForeignRun]:
    """Return the runs of an export in the order in which they began, each in its place in the tree.

    Args:
        path: The file.
        data: A list of runs, one run, or a mapping with a list under `runs`; a run may hold its children.
        root: The position of runs without a parent.

    Raises:
        CassetteFormatError: If it isn't an export.
    """
    if isinstance(data, dict):
        data = data["runs"] if isinstance(data.get("runs"), list) else [data]
    listed = enumerate(expect_list(path, "the top", data))
    plain = [run for number, item in listed for run in _flat(path, f"[{number}]", item, None)]
    found: dict[str, ForeignRun] = {}
    for item in sorted(plain, key=_order):
        above = found.get(str(item.get("parent_run_id")))
        run = ForeignRun(item, above)
        below = above.position if above is not None else root
        run.position = below.child(**placement(_position_name(run), run.tags, dict(run.metadata)))
        found[str(item["id"])] = run
    return list(found.values())


def _flat(path: Path, where: str, item: Any, parent: str | None) -> Iterator[dict[str, Any]]:
    """Yield a run and the children that it holds."""
    plain = expect_mapping(path, where, item)
    if not isinstance(plain.get("id"), str) or not isinstance(plain.get("run_type"), str):
        raise malformed(path, where, "a run with an id and a run_type", plain.get("run_type"))
    yield {**plain, "parent_run_id": plain.get("parent_run_id") or parent}
    for number, child in enumerate(_items(plain.get("child_runs"))):
        yield from _flat(path, f"{where}.child_runs[{number}]", child, plain["id"])


def _order(plain: Mapping[str, Any]) -> tuple[str, str]:
    """Sort as they began: `dotted_order` has the times of all runs around it, and parents before their children."""
    start = _time(plain.get("start_time"))
    return str(plain.get("dotted_order") or ""), start.astimezone(UTC).isoformat() if start is not None else "9999"


def _position_name(run: ForeignRun) -> str:
    return run.class_name if run.kind == "llm" else run.name


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time
