"""The leaf interfaces of a framework: the methods that its base classes leave to a provider, or to the program.

A framework adds such a base class in a minor version (LangChain added decision models in 1.8), and every call of it is
then live in a replay until an integration knows it. So each integration lists them, and a test fails on an unknown one.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType


@functools.cache  # it imports and reads all modules of a framework
def leaf_interfaces(*packages: str, skip: Collection[str] = ()) -> dict[str, frozenset[str]]:
    """Return the methods that the public classes of installed packages leave to others, by the names of the classes.

    A method is left to others if it is abstract, or if all that it does is to raise `NotImplementedError`. Where the
    asynchronous form of a method, or another that calls it, has a default, only the method counts.

    Args:
        packages: The packages to walk, such as `langchain_core`; one that isn't installed has no interfaces.
        skip: Modules to leave out, with all that is in them.

    Returns:
        For `langchain_core.retrievers.BaseRetriever`: `{"_get_relevant_documents"}`.
    """
    found: dict[str, frozenset[str]] = {}
    for module in _modules(packages, skip):
        unimplemented = _unimplemented(module)
        for name, cls in list(vars(module).items()):
            if not inspect.isclass(cls) or cls.__module__ != module.__name__ or name.startswith("_"):
                continue
            own = vars(cls)
            abstract = {
                each for each in getattr(cls, "__abstractmethods__", ()) if each in own and _is_method(own[each])
            }
            if leaves := abstract | unimplemented.get(name, set()):
                found[f"{module.__name__}.{cls.__qualname__}"] = frozenset(leaves)
    return found


def unjudged(
    found: Mapping[str, Collection[str]], boundaries: Collection[tuple[type, str]], program: Mapping[str, str]
) -> list[str]:
    """Return the leaf interfaces that are neither a boundary nor listed as code of the program, a line each.

    Args:
        found: The interfaces, as `leaf_interfaces` returns them.
        boundaries: The leaf methods that an integration records, each with the base class that has it: a class is
            covered by a boundary of one of its bases.
        program: For the name of a class, or of a method (`module.Class.method`), the reason why it isn't a boundary.
    """
    recorded: dict[str, list[type]] = {}
    for base, method in boundaries:
        recorded.setdefault(method, []).append(base)
    return [
        f"{name}.{method}"
        for name, methods in sorted(found.items())
        for method in sorted(methods)
        if name not in program
        and f"{name}.{method}" not in program
        and not any(issubclass(_loaded(name), base) for base in recorded.get(method, ()))
    ]


def unneeded(found: Mapping[str, Collection[str]], program: Mapping[str, str]) -> list[str]:
    """Return the entries of a list of program code that name no leaf interface: misspelt, or gone."""
    known = {*found, *(f"{name}.{method}" for name, methods in found.items() for method in methods)}
    return sorted(program.keys() - known)


def _modules(packages: Collection[str], skip: Collection[str]) -> Iterator[ModuleType]:
    for package in packages:
        root = _imported(package)
        for folder in map(Path, getattr(root, "__path__", ())):
            for file in sorted(folder.rglob("*.py")):  # not by `pkgutil`, which passes over namespaces inside
                parts = [package, *file.relative_to(folder).with_suffix("").parts]
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                is_skipped = any(f"{name}.".startswith(f"{each}.") for each in skip)
                if not is_skipped and "tests" not in parts and (module := _imported(name)) is not None:
                    yield module


def _imported(name: str) -> ModuleType | None:
    """Return a module; `None` if it needs a package that isn't installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except Exception:  # a module may raise whatever it likes where an extra of it is missing
            return None


def _loaded(name: str) -> type:
    module, _, cls = name.rpartition(".")
    found: type = getattr(importlib.import_module(module), cls)
    return found


def _is_method(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)


def _unimplemented(module: ModuleType) -> dict[str, set[str]]:
    """Return the methods of the classes of a module that only raise `NotImplementedError`."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):  # a package without source
        return {}
    return {
        node.name: {
            each.name
            for each in node.body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and _only_raises(each)
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def _only_raises(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for a body of a docstring, a message, and `raise NotImplementedError`."""
    last = function.body[-1]
    if not isinstance(last, ast.Raise) or last.exc is None:
        return False
    raised = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
    is_it = isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    return is_it and all(isinstance(each, ast.Expr | ast.Assign) for each in function.body[:-1])
