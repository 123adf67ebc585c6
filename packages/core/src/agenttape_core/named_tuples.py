"""Named tuples that take a third of the time to make: a session imports a hundred of them.

`typing.NamedTuple` compiles each annotation that is a string, only to see that it may be a type, and a constructor for
each class. Here classes with as many fields share the code of their constructor, and all classes their methods.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import _tuplegetter  # properties in C, where Python has them

    _new = tuple.__new__

    class _Methods:
        """The methods of a named tuple, beside a tuple's."""

        __slots__ = ()

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Any:
            return cls(*values)

        def _replace(self, /, **values: Any) -> Any:
            made = _new(type(self), map(values.pop, self._fields, self))
            if values:
                raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")
            return made

        __replace__ = _replace  # of `copy.replace`, since Python 3.13

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            shown = ", ".join([f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True)])
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    @cache
    def _constructor(fields: int) -> CodeType:
        """Return the code of a constructor with a number of fields."""
        names = "".join(f"_{number}, " for number in range(fields))
        return eval(f"lambda _cls, {names}: _new(_cls, ({names}))").__code__  # noqa: S307 - our own words

    class _Maker(type):
        """Makes a named tuple of a class of fields."""

        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            """Return the named tuple, with the methods and the docstring of the class."""
            if not bases:
                return super().__new__(cls, name, bases, space)
            annotations = space.get("__annotations__")
            if annotations is None:  # since Python 3.14, of a module that doesn't import them from `__future__`
                annotations = space["__annotate_func__"](1)
            fields = tuple(annotations)
            defaults = {field: space.pop(field) for field in fields if field in space}
            names = {"co_name": "__new__", "co_qualname": f"{name}.__new__", "co_varnames": ("_cls", *fields)}
            code = _constructor(len(fields)).replace(**names)
            made = FunctionType(code, globals(), "__new__", tuple(defaults.values()))
            space.update(
                {field: _tuplegetter(number, f"The field {number}") for number, field in enumerate(fields)},
                __slots__=(),
                __new__=made,
                __match_args__=fields,
                _fields=fields,
                _field_defaults=defaults,
            )
            return type(name, (_Methods, tuple), space)

    class NamedTuple(metaclass=_Maker):
        """As in `typing`."""
