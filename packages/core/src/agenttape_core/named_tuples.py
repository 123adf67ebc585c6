"""Named tuples that take half the time to make: a session imports a hundred of them.

`typing.NamedTuple` compiles each annotation that is a string, only to see that it may be a type.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Maker(type):
        """Makes a named tuple of a class of fields."""

        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            """Return the named tuple, with the methods and the docstring of the class."""
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = space["__annotations__"]
            defaults = [space.pop(field) for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])  # noqa: PYI024
            for each, value in space.items():
                setattr(made, each, value)
            return made

    class NamedTuple(metaclass=_Maker):
        """As in `typing`."""
