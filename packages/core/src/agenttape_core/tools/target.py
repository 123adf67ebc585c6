"""The function to verify, named so that a child process finds it."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import sys
from collections.abc import AsyncIterator, Callable
from functools import reduce
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.named_tuples import NamedTuple

_REMEDY = (
    "\n  a child process imports it: define it at the top level of a module or of a script, without arguments,"
    '\n  or name it: "module:function" or "path/to/file.py:function"'
)


class Target(NamedTuple):
    """The place of a function."""

    module: str  # the module to import; empty for a script, which is loaded from its file
    file: str  # the file that the module was loaded from; empty if it is not known
    qualname: str  # the name in the module, such as `Agent.answer`

    def __str__(self) -> str:
        return f"{self.module or Path(self.file).name}:{self.qualname}"


def target_of(function: Callable[..., Any] | str) -> Target:
    """Return where a function is.

    `function` may be its name as `module:function` or `path/to/file.py:function`. Raises `ConfigurationError` if a
    child process could not find it.
    """
    if isinstance(function, str):
        return _named(function)
    if not callable(function):
        raise ConfigurationError(f"verify: expected a function or its name, found {type(function).__name__}{_REMEDY}")
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if not name or "<" in name or module is None:
        kind = "a lambda" if name.endswith("<lambda>") else "defined inside a function" if "<" in name else "an object"
        raise ConfigurationError(f"verify: cannot hand {name or type(function).__name__} on: it is {kind}{_REMEDY}")
    if _attribute(module, name) != function:
        raise ConfigurationError(f"verify: {module.__name__} holds something else under the name {name}{_REMEDY}")
    file = str(Path(module.__file__).resolve()) if module.__file__ is not None else ""
    if module.__name__ != "__main__":
        return Target(module.__name__, file, name)
    if spec := getattr(module, "__spec__", None):  # run by `python -m`
        return Target(spec.name, file, name)
    if not Path(file).is_file():
        raise ConfigurationError(f"verify: {name} is defined in no file{_REMEDY}")
    return Target("", file, name)


def _named(name: str) -> Target:
    place, _, qualname = name.rpartition(":")
    if not place or not qualname or place.endswith(":"):  # as the id of a test does
        raise ConfigurationError(f'expected "module:function" or "file.py:function", found {name!r}')
    if not place.endswith(".py"):
        return Target(place, "", qualname)
    file = Path(place).resolve()
    if not file.is_file():
        raise ConfigurationError(f"there is no file {place}")
    return Target("", str(file), qualname)


def load(target: Target) -> Callable[[], Any]:
    """Return the function, in the child."""
    function: Callable[[], Any] = load_object(target)
    if not callable(function):
        raise TypeError(f"{target} is not a function")
    return function


def load_object(target: Target) -> Any:
    """Return the object behind a name, in the child; `None` if its module has no such name."""
    module = _imported(target.module, target.file) if target.module else _script(target.file)
    return _attribute(module, target.qualname)


def _attribute(module: Any, qualname: str) -> Any:
    return reduce(lambda found, name: getattr(found, name, None), qualname.split("."), module)


def _imported(name: str, file: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # pytest imports tests by their file: `tests.test_agent` although the folder of `tests` is not on the path.
        if not file or error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
    root = _root(Path(file), name)
    if root is not None:
        sys.path.append(str(root))
        importlib.invalidate_caches()
        return importlib.import_module(name)
    return _from_file(name, file)


def _root(file: Path, name: str) -> Path | None:
    """Return the folder from which a file has the name that it was imported by."""
    place = file.parent if file.name == "__init__.py" else file.with_suffix("")
    parts = tuple(name.split("."))
    return place.parents[len(parts) - 1] if place.parts[-len(parts) :] == parts else None


def _script(file: str) -> Any:
    """Load a script as its own folder would import it: the block below `if __name__ == "__main__"` doesn't run."""
    sys.path.insert(0, str(Path(file).parent))
    name = Path(file).stem
    module = _from_file(name if name not in sys.modules else f"{name}_script", file)
    sys.modules["__main__"] = module  # where recorded values of the script's own types look for them
    return module


def _from_file(name: str, file: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_program(name: str) -> Any:
    """Return the program behind a name; if it names a function without arguments, that makes the program.

    Raises `ConfigurationError` if there's none, and `ImportError` if its module can't be imported.
    """
    target = target_of(name)
    found = load_object(target)
    if found is None:
        raise ConfigurationError(f"{target.module or target.file} has no {target.qualname}")
    if inspect.isfunction(found) and not inspect.signature(found).parameters:
        return asyncio.run(found()) if inspect.iscoroutinefunction(found) else found()
    return found


def run_to_end(function: Callable[[], Any]) -> Any:
    """Call a function, and run its result to its end: a coroutine in a loop, a generator item by item."""
    result = function()
    if inspect.iscoroutine(result) or inspect.isasyncgen(result):
        return asyncio.run(awaited(result))
    return list(result) if inspect.isgenerator(result) else result


async def awaited(result: Any) -> Any:
    """Await a function's result, or read it to its end."""
    return [item async for item in result] if isinstance(result, AsyncIterator) else await result
