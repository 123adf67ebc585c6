"""What the packages offer: every exported name exists and explains itself, and importing is light."""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
import pkgutil
import re
import subprocess
import sys
from types import ModuleType
from typing import Any, get_origin

import pytest

import agenttape_core
import agenttape_langchain
import agenttape_langgraph
import agenttape_llamaindex
from agenttape_core import errors

PACKAGES = [agenttape_core, agenttape_langchain, agenttape_langgraph, agenttape_llamaindex]
MODULES = sorted(
    module.name for package in PACKAGES for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
)
CORE_FACES = [
    "agenttape_core",
    "agenttape_core.asgi",
    "agenttape_core.checks",
    "agenttape_core.integration",
    "agenttape_core.integration.cassettes",
    "agenttape_core.integration.codecs",
    "agenttape_core.integration.importing",
    "agenttape_core.integration.observing",
    "agenttape_core.integration.patching",
    "agenttape_core.integration.stand_ins",
    "agenttape_core.integration.threads",
    "agenttape_core.readers",
    "agenttape_core.results",
]


def exporting() -> list[ModuleType]:
    """Return all modules that say what they export."""
    modules = [*PACKAGES, *map(importlib.import_module, MODULES)]
    return [module for module in modules if hasattr(module, "__all__")]


@pytest.mark.parametrize("module", exporting(), ids=lambda module: module.__name__)
def test_names_exist(module: ModuleType) -> None:
    """Every name in `__all__` can be imported, none is there twice."""
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("name", CORE_FACES)
def test_all_is_complete(name: str) -> None:
    """A face exports all functions and classes that it has; else only constants and types with names of their own."""
    module = importlib.import_module(name)
    for exported in module.__all__:  # what is imported when it is asked for
        getattr(module, exported)
    public = {
        name
        for name, value in vars(module).items()
        if not (name.startswith("_") or inspect.ismodule(value))
        and (getattr(value, "__module__", "") or "").partition(".")[0] == "agenttape_core"
    }
    others = set(module.__all__) - public
    assert public <= set(module.__all__)
    assert [name for name in others if inspect.isfunction(getattr(module, name))] == []


def test_every_name_has_a_home() -> None:
    """What core exports is just what it imports when it is asked for, each name once."""
    homes = [name for names in agenttape_core._HOMES.values() for name in names]
    assert sorted(homes) == sorted(agenttape_core.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'cassette'"):
        agenttape_core.cassette  # noqa: B018


# The modules that users and integration authors import from.
@pytest.mark.parametrize(
    "name",
    [
        *CORE_FACES,
        "agenttape_langchain",
        "agenttape_langgraph",
        "agenttape_llamaindex",
    ],
)
def test_docstrings(name: str) -> None:
    """Every public name, and what is public in it, has a docstring whose first line is a full sentence."""

    def public_members(value: Any) -> list[tuple[str, Any]]:
        """Return the methods and properties that a class defines itself for its users."""
        members = vars(value).items() if inspect.isclass(value) else ()
        kinds = (property, staticmethod, classmethod)
        return [(n, m) for n, m in members if not n.startswith("_") and (inspect.isfunction(m) or isinstance(m, kinds))]

    module = importlib.import_module(name)
    undocumented = []
    for exported in module.__all__:
        value = getattr(module, exported)
        described = [(exported, value), *((f"{exported}.{n}", m) for n, m in public_members(value))]
        for path, item in described:
            if (
                get_origin(item) is not None
            ):  # a type with a name of its own: what it says stands below it in the source
                continue
            if inspect.isclass(item) or callable(item) or isinstance(item, property | staticmethod | classmethod):
                first = (inspect.getdoc(item) or "").partition("\n")[0]
                if not re.search(r"[.:?]$|`$", first):
                    undocumented.append(f"{path}: {first!r}")
    assert undocumented == []


def test_error_tree() -> None:
    """The tree in the docstring of `errors` is the tree of the classes, with every one of them and its base."""
    drawn: dict[str, str] = {}
    path: list[str] = []
    assert errors.__doc__ is not None
    for line in errors.__doc__.partition("```\n")[2].partition("```")[0].splitlines():
        match = re.match(r"([│├└─ ]*)(\w+)(?: \((\w+)\))?", line)
        if match and match[2]:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            drawn[match[2]] = match[3] or path[depth - 1]
    actual = {
        cls.__name__: cls.__bases__[0].__name__
        for cls in vars(errors).values()
        if inspect.isclass(cls) and issubclass(cls, BaseException)
    }
    warnings = {name: actual.pop(name) for name in list(actual) if name.endswith("Warning")}
    assert set(warnings.values()) == {"UserWarning"}
    assert drawn == actual


def test_halts_pass_through() -> None:
    """The halts are no `Exception`: frameworks turn those into answers."""

    def tree_of(base: type[BaseException]) -> list[tuple[type[BaseException], type[BaseException]]]:
        """Return (class, parent) of everything below a class that the module defines."""
        below = [cls for cls in vars(errors).values() if inspect.isclass(cls) and base in cls.__bases__]
        return [pair for cls in below for pair in ((cls, base), *tree_of(cls))]

    assert not issubclass(errors.AgentTapeHalt, Exception)
    assert {cls for cls, _ in tree_of(errors.AgentTapeHalt)} == {
        errors.BudgetExceededError,
        errors.CassetteMissError,
        errors.NetworkBlockedError,
        errors.IncompleteObjectError,
    }


HEAVY = ["langchain", "langchain_core", "langgraph", "llama_index", "httpx", "httpx2", "requests", "aiohttp", "pytest"]


@pytest.mark.process
@pytest.mark.parametrize("module", ["agenttape_core", "agenttape_core.integration"])
def test_light_import(module: str) -> None:
    """Importing the core loads no framework, no HTTP client and no test runner, and starts nothing."""
    program = (
        f"import sys, threading, {module}\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], threading.active_count(), len(sys.meta_path))"
    )
    bare = "import sys; print([], 1, len(sys.meta_path))"
    outputs = [
        subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True).stdout
        for code in (program, bare)
    ]
    assert outputs[0] == outputs[1]


@pytest.mark.process
def test_session_loads_no_framework() -> None:
    """Nor does a session load the framework of an installed integration: it waits until the program does."""
    program = (
        "import sys, tempfile, agenttape_core\n"
        "with tempfile.TemporaryDirectory() as folder, agenttape_core.use_cassette(folder + '/c.yaml', mode='once'):\n"
        f"    print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_typed(package: ModuleType) -> None:
    """Type checkers are told to look inside."""
    assert importlib.resources.files(package).joinpath("py.typed").is_file()


@pytest.mark.parametrize("package", PACKAGES[1:], ids=lambda package: package.__name__)
def test_a_framework_package_has_the_names_of_core_that_most_programs_need(package: ModuleType) -> None:
    """`use_cassette` and `boundary` can be imported from the package of the framework that you installed."""
    assert (package.use_cassette, package.boundary) == (agenttape_core.use_cassette, agenttape_core.boundary)


def test_the_root_of_core_is_small() -> None:
    """The root has at most 35 names, and errors are imported from `agenttape_core.errors`."""
    assert len(agenttape_core.__all__) <= 35
    assert not [name for name in agenttape_core.__all__ if hasattr(errors, name)]
