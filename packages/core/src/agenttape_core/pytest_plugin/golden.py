"""Golden values: the results of a test when it was recorded."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.yaml_load import load_yaml
from agenttape_core.format.yaml_text import dump_mapping
from agenttape_core.matching import Ignored
from agenttape_core.pytest_plugin.naming import safe
from agenttape_core.schema import Plain
from agenttape_core.session import Session, plain_value
from agenttape_core.storage import GOLDEN, is_pending, stem_of
from agenttape_core.storage.atomic import make_folder, replace_file


class Golden:
    """The golden values of one test.

    Args:
        session: The session of the test, whose redactor replaces secrets as in the cassette.
        command: The command that runs the test.
        compares: Whether values are compared with the recorded ones also where the session records.
    """

    def __init__(self, session: Session, command: str, *, compares: bool = False) -> None:
        self._session = session
        self._compares = compares
        self._again = f"{command} --rerecord"
        self._made: dict[str, str] = {}

    def compare(self, value: Any, name: str, ignore: Collection[str] = ()) -> None:
        """Compare a value with the recorded one, or note it where the session records.

        Args:
            value: The value.
            name: Its name.
            ignore: The paths in it that are neither compared nor written.

        Raises:
            ConfigurationError: The cassette is at a URL, or a path is none.
            AssertionError: They differ, or there is no recorded one.
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
        assert path.is_file(), f"there is no golden value {shown_path(path)}\n  record it:  {self._again}"
        recorded = path.read_text(encoding="utf-8")
        if ignore:
            with suppress(Malformed, ValueError):  # what is no golden value differs, and the difference shows it
                loaded = load_yaml(recorded.encode())
                recorded = (
                    _written(loaded["value"], ignored) if isinstance(loaded, dict) and "value" in loaded else recorded
                )
        if self._session.setup.candidates is not None and recorded != text:
            return  # a candidate has other words: the table says so
        lines = difflib.unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "now", lineterm="", n=2)
        assert recorded == text, "\n".join(
            [f"the value differs from {shown_path(path)}", *lines, f"record it anew:  {self._again}"]
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
            raise ConfigurationError(f"golden values lie beside the cassette, and {cassette} isn't a local file")
        return cassette.with_name(f"{stem_of(cassette)}{f'.{safe(name)}' if name else ''}{GOLDEN}")


def _written(value: Plain, ignored: Ignored) -> str:
    return dump_mapping({"value": ignored.stripped(value)})
