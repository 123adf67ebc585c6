"""A varied replay of a command: the variation for its main process, and the end of that one's session."""

from __future__ import annotations

import base64
import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling import Choices
from agenttape_core.schema import IndexRow
from agenttape_core.session import Report


class SessionEnd(NamedTuple):
    """The end of the session of a command's main process."""

    report: Report
    changes: Mapping[int, str] = {}  # the changes in words, by the number of the recorded call
    failure: BaseException | None = None  # the failure of the session; `None` if there was none
    choices: Choices | None = None  # the choices of the run, if an order was imposed
    rows: Sequence[IndexRow] = ()  # the recordings, if an order was imposed


class _Pickler(pickle.Pickler):
    """Also takes errors that can't be made from their arguments alone, such as errors of providers' clients."""

    def reducer_override(self, obj: Any) -> Any:
        """Take an error apart."""
        if isinstance(obj, BaseException):
            return _error, (type(obj), obj.args), vars(obj) or None
        return NotImplemented


def _error(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    return kind.__new__(kind, *args)


def packed(value: Any) -> str:
    """Return a value as text for another process of the run. It's a variation or a `SessionEnd`."""
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return base64.b64encode(file.getvalue()).decode()


def unpacked(text: str) -> Any:
    """Return the value that `packed` made a text: it comes from a process of this run, in a folder of this user."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301 - as the docstring says
