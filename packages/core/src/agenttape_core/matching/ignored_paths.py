"""The paths of requests that a user leaves out of the comparison.

A path is spelled as the explanation of a miss prints it: `arguments.now`, `messages[0].name`. `*` matches any one key,
`[*]` any item of a list, `**` any number of steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agenttape_core.errors import ConfigurationError
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Plain

Step = str | int
"""A key, an index, or one of the three stars."""

Paths = tuple[tuple[Step, ...], ...]
"""The rest of the paths below some place; an empty one means that the place itself is ignored."""

_ANY_KEY, _ANY_ITEM, _ANYTHING = "*", "[*]", "**"
_STEP = Lazy(r"\[(\d+|\*)\]|(?:(?<=.)\.|^)((?:[^.\[\]\\]|\\.)+)", re.DOTALL)


class Ignored(NamedTuple):
    """A set of ignored paths.

    Args:
        spelled: The paths as the user wrote them, sorted.
        paths: The same in steps.
    """

    spelled: tuple[str, ...] = ()
    paths: Paths = ()

    @classmethod
    def of(cls, spelled: Iterable[str]) -> Ignored:
        """Return the set of the paths.

        Raises:
            ConfigurationError: If one is not a path.
        """
        unique = tuple(sorted(set(spelled)))
        return cls(unique, tuple(map(_steps, unique)))

    def stripped(self, plain: Plain) -> Plain:
        """Return a request without its ignored parts."""
        return stripped(plain, self.paths)


NOTHING = Ignored()


def _steps(path: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or (at == 0 and match[2] is None):
            raise ConfigurationError(
                f"ignore={path!r} is not a path of a request: expected for example 'arguments.now', 'messages[*].name' "
                "or '**.created_at'"
            )
        index, key = match.groups()
        if key is not None:
            steps.append(key if key in {_ANY_KEY, _ANYTHING} else re.sub(r"\\(.)", r"\1", key))
        else:
            steps.append(_ANY_ITEM if index == "*" else int(index))
        at = match.end()
    if not steps or steps[-1] == _ANYTHING:
        raise ConfigurationError(f"ignore={path!r} would ignore everything; name what follows the '**'")
    return tuple(steps)


def below(paths: Paths, step: str | int) -> Paths:
    """Return the rest of the paths one step further down: at a key, or at the index of an item."""
    star = _ANY_KEY if isinstance(step, str) else _ANY_ITEM
    found: list[tuple[Step, ...]] = []
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if not path:
            continue
        if path[0] == _ANYTHING:
            found.append(path)
            waiting.append(path[1:])
        elif path[0] in (step, star):
            found.append(path[1:])
    return tuple(found)


def ignores(paths: Paths) -> bool:
    """True if the place that these paths are left of is ignored itself."""
    return () in paths


def stripped(plain: Plain, paths: Paths) -> Plain:
    """Return plain data without its ignored parts; other parts aren't copied."""
    if not paths:
        return plain
    if isinstance(plain, dict):
        kept = ((key, item, below(paths, key)) for key, item in plain.items())
        return {key: stripped(item, rest) for key, item, rest in kept if not ignores(rest)}
    if isinstance(plain, list):
        return _stripped_items(plain, paths)
    return plain


def _stripped_items(items: Sequence[Plain], paths: Paths) -> list[Plain]:
    kept = ((item, below(paths, index)) for index, item in enumerate(items))
    return [stripped(item, rest) for item, rest in kept if not ignores(rest)]
