"""What retrievers, rerankers, stores and tools have in common: methods that the framework may begin a span for.

The span belongs to the method, whether it is served or not. So what is substituted is the function inside of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agenttape_core.integration import Cross, Family, alias_class, coroutine, plain
from agenttape_llamaindex._compat import static, within_decorators


def spanned_plain(real: Any, cross: Cross) -> Any:
    """Wrap a method that returns, inside of its span."""
    return within_decorators(real, lambda inner: plain(inner, cross))


def spanned_coroutine(real: Any, cross: Cross) -> Any:
    """Wrap a method that is awaited, inside of its span."""
    return within_decorators(real, lambda inner: coroutine(inner, cross))


def part_alias_for(cls: type, family: Family, make: Callable[[Any], type]) -> type:
    """Return the class of aliases for the objects of a class: taped by hand, also what an ambient session lets run.

    Args:
        cls: The class.
        family: Its family.
        make: The module-level function that makes such classes.
    """
    own = {}
    for name, leaf in family.leaves.items():
        method = static(cls, name)
        inherited = method is None or getattr(method, "__isabstractmethod__", False)
        if not inherited and (name in family.defaults or method is not static(family.base, name)):
            own[name] = leaf.shape(method, leaf.cross)
    return alias_class(cls, own, make)
