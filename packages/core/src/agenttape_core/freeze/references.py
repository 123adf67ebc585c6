"""Functions in C, answered for wherever a reference to them is held.

A search of modules finds the globals that hold `time.time`. It does not find `field(default_factory=time.time)`, nor
what pydantic keeps inside its core, a default argument, a `functools.partial`, a value of a dict; and whoever wrote
`default_factory=datetime.now` holds a method that was bound before any session. As with `uuid.uuid4` (see `ids`), all
of them share one thing, which is therefore replaced: the entry that names which C function runs, `PyMethodDef`
(https://docs.python.org/3/c-api/structures.html#c.PyMethodDef).

- A function of a module is one object (`FunctionReference`). While a session is open it has an entry of ours. It's set
  to a function of the C API which calls the function's module, and there our wrapper takes the module's place.
- A method of a class has one entry for all objects that were ever bound to it (`MethodReference`). The address in it is
  exchanged for one that ctypes makes. Nothing can be raised from there: a call with wrong arguments is a `SystemError`.

Whoever keeps a real clock by the rules of `modules` does so here. Only CPython has such entries; without them, or with
an unknown layout, references stay real.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable
from typing import Any

_NO_ARGUMENTS, _ONE, _TUPLE, _VECTOR = 0x4, 0x8, 0x1, 0x82
_CLASS = 0x10
_Address = ctypes.c_void_p
_OBJECT = ctypes.py_object
_IS_KNOWN = (
    sys.implementation.name == "cpython"
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
    and object.__basicsize__ == 2 * ctypes.sizeof(ctypes.c_void_p)
)

KeepsReal = Callable[[types.FrameType], bool]  # returns True for the frame of code that is to have the real function


class _Entry(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (("name", ctypes.c_char_p), ("address", _Address), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class _Function(ctypes.Structure):
    """The beginning of `PyCFunctionObject`."""

    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("type", _Address),
        ("entry", ctypes.POINTER(_Entry)),
        ("owner", _Address),
    )


_Slots = ctypes.c_size_t * 2  # the entry and the owner of a function
_CALLING = {_NO_ARGUMENTS: "PyObject_CallNoArgs", _ONE: "PyObject_CallOneArg", _TUPLE: "PyObject_CallObject"}
"""The functions of the C API that call their first argument, with the arguments that a C function of these flags
gets."""


def _function_of(function: Any) -> tuple[_Function, _Entry] | None:
    """Return the entry behind a function in C, if its layout is understood."""
    if not _IS_KNOWN or type(function) is not types.BuiltinFunctionType:
        return None
    found = _Function.from_address(id(function))
    entry = _Entry.from_address(ctypes.addressof(found.entry.contents))
    return (found, entry) if entry.name == function.__name__.encode() else None


def _bound(entry: _Entry, owner: Any) -> Any:
    """Return a new function of an entry."""
    bind = ctypes.pythonapi.PyCFunction_NewEx
    bind.restype, bind.argtypes = _OBJECT, (ctypes.POINTER(_Entry), _OBJECT, _Address)
    return bind(ctypes.byref(entry), owner, None)


def unexchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does the same as a function that is not exchanged yet, and will not be exchanged with it."""
    found = _function_of(function)
    if found is None:
        return function
    real: Callable[..., Any] = _bound(found[1], getattr(function, "__self__", None))
    return real


class FunctionReference:
    """A function of a module, by whatever reference.

    A function that is not in C, or takes its arguments in another way, is left alone; `keeps_real` returns True for the
    frame of code that is to have the real one.
    """

    def __init__(self, function: Callable[..., Any], stand_in: Callable[..., Any], keeps_real: KeepsReal) -> None:
        found = _function_of(function)
        calling = _CALLING.get(found[1].flags) if found is not None else None
        self.slots: tuple[Any, list[int], list[int]] | None = None
        """The field that is replaced, its real content, and its content in sessions; `None` if it is left alone."""
        if found is None or calling is None:
            return
        real = unexchanged(function)

        def choosing(*args: Any) -> Any:
            return (real if keeps_real(sys._getframe(1)) else stand_in)(*args)  # noqa: SLF001 - see callers

        self._choosing = choosing
        ctypes.pythonapi.Py_IncRef(_OBJECT(choosing))  # as the function refers to it from time to time
        address = ctypes.cast(getattr(ctypes.pythonapi, calling), _Address).value
        self._entry = _Entry(found[1].name, address, found[1].flags, found[1].doc)
        slots = _Slots.from_address(id(function) + _Function.entry.offset)
        self.slots = (slots, slots[:], [ctypes.addressof(self._entry), id(choosing)])


_SIGNATURES: dict[int, Any] = {
    _NO_ARGUMENTS: ctypes.PYFUNCTYPE(_OBJECT, _OBJECT, _Address),
    _VECTOR: ctypes.PYFUNCTYPE(_OBJECT, _OBJECT, ctypes.POINTER(_OBJECT), ctypes.c_ssize_t, _Address),
}


def _arguments(values: Any = None, count: int = 0, names: int | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Convert the arguments of a call in C to those of a call in Python."""
    keywords: tuple[str, ...] = ctypes.cast(names, _OBJECT).value if names else ()
    plain = [values[at] for at in range(count + len(keywords))]
    return tuple(plain[:count]), dict(zip(keywords, plain[count:], strict=True))


class MethodReference:
    """A class method, however it was bound. `stand_in` gets the class first; see `FunctionReference`."""

    def __init__(self, method: Any, stand_in: Callable[..., Any], keeps_real: KeepsReal) -> None:
        found = _function_of(method)
        make = _SIGNATURES.get(found[1].flags & ~_CLASS) if found is not None else None
        self.entry = found[1] if found is not None and make is not None else None
        if found is None or make is None:
            return
        self.actual = _Entry(found[1].name, found[1].address, found[1].flags, found[1].doc)

        def choosing(cls: type, *given: Any) -> Any:
            args, kwargs = _arguments(*given)
            if keeps_real(sys._getframe(1)):  # noqa: SLF001 - see callers
                return self.real(cls)(*args, **kwargs)
            return stand_in(cls, *args, **kwargs)

        self._choosing = make(choosing)
        ctypes.pythonapi.Py_IncRef(_OBJECT(self._choosing))  # C may go on calling it while Python clears its modules
        self.address = ctypes.cast(self._choosing, _Address).value

    @property
    def is_understood(self) -> bool:
        """True if it can be exchanged."""
        return self.entry is not None

    def real(self, cls: type) -> Any:
        """Return the real method, bound to a class, whatever is in its place."""
        return _bound(self.actual, cls)


class References:
    """References that are replaced together, by a loop that calls none of our functions: every session does so."""

    def __init__(self, references: Iterable[FunctionReference | MethodReference]) -> None:
        self._kept = tuple(references)  # with what C calls
        functions = (each.slots for each in self._kept if isinstance(each, FunctionReference))
        self._slots = [slots for slots in functions if slots is not None]
        methods = (each for each in self._kept if isinstance(each, MethodReference))
        self._methods = [(method, method.entry) for method in methods if method.entry is not None]

    def swap_in(self) -> None:
        """Let all of them call their stand-ins."""
        for slots, real, ours in self._slots:
            if slots[:] == real:
                slots[:] = ours
        for method, entry in self._methods:
            if entry.address != method.address:
                method.actual.address = entry.address  # perhaps that of another tool by now
                entry.address = method.address

    def swap_out(self) -> None:
        """Let all of them call the functions that they are."""
        for slots, real, ours in self._slots:
            if slots[:] == ours:
                slots[:] = real
        for method, entry in self._methods:
            if entry.address == method.address:  # else it is somebody else's by now
                entry.address = method.actual.address
