"""The base of what listens to the framework's spans: the signatures of its interface, once."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from typing import Any, Self

from llama_index_instrumentation.span_handlers import NullSpanHandler


class SpanListener(NullSpanHandler):
    """Listens to spans, and makes no spans.

    Agents and workflows hold their dispatcher, and that holds its handlers. So copying one of them copies us: a copy
    reports to the same listener, and has none of its state. In another process it's inactive.
    """

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self

    def __reduce__(self) -> tuple[type[NullSpanHandler], tuple[()]]:
        return NullSpanHandler, ()

    @abstractmethod
    def began(
        self, id_: str, bound: inspect.BoundArguments, instance: Any, parent_id: str | None, tags: dict[str, Any] | None
    ) -> None:
        """Note a span that begins."""

    @abstractmethod
    def returned(self, id_: str, result: Any) -> None:
        """Note a span whose method has returned."""

    @abstractmethod
    def failed(self, id_: str, error: BaseException | None) -> None:
        """Note a span whose method has raised."""

    def span_enter(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Begin a span."""
        self.began(id_, bound_args, instance, parent_id, tags)

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **kwargs: Any,
    ) -> None:
        """End a span."""
        self.returned(id_, result)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        """End a span that raised."""
        self.failed(id_, err)
