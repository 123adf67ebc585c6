"""The page about the API is made of the code: every public name, its signature and what its docstring says.

To write it anew after a change of the code: `pytest tests/docs/test_api.py --update-examples`.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.fixtures import FixtureFunctionDefinition

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
MODULES = {
    "agenttape_core": "What a user of any framework needs.",
    "agenttape_core.pytest_plugin": "What the fixture `cassette` gives; see [testing with pytest](pytest.md).",
    "agenttape_core.integration": "For whoever [writes an integration](integrations.md).",
    "agenttape_core.testing": "The [conformance suite](conformance.md).",
    "agenttape_core.tools.export": "See [exporting](exporting.md).",
    "agenttape_core.redaction": "See [redaction](redaction.md).",
    "agenttape_core.storage": "The [limits](files.md#limits) of files; the rest of this module may change.",
    "agenttape_core.transports.httpx": "See [HTTP](http.md). `agenttape_core.transports.httpx2` has the same names.",
    "agenttape_langchain": "See [LangChain](langchain.md).",
    "agenttape_langchain.importers": "See [migration](migration.md).",
    "agenttape_langgraph": "See [LangGraph](langgraph.md).",
    "agenttape_llamaindex": "See [LlamaIndex](llamaindex.md).",
    "agenttape_llamaindex.testing": "The same for LLMs and embedding models; see [LlamaIndex](llamaindex.md).",
}
SOME = {
    "agenttape_core.storage": ["MAX_DEPTH", "MAX_FILE_BYTES", "MAX_INT_DIGITS", "MAX_RECORD_BYTES", "MIN_ASSET_BYTES"],
    "agenttape_core.integration": [
        "Family",
        "Leaf",
        "alias_for",
        "alias_of",
        "begin",
        "named_arguments",
        "plain",
        "wrapping",
    ],
}
"""What is public of a module that is not public as a whole."""
SAME = {"agenttape_core.transports.httpx2": "agenttape_core.transports.httpx"}
HEAD = """# API

The public names of the packages, with what their docstrings say. What has no place on this page is not public, and may
change without notice. The page is made of the code; a test sees to it that it is up to date.
"""
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):\n((?:    .*\n?|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^    (?P<name>[\w.*, ]+?)(?: \(.*?\))?: (?P<text>.*(?:\n     .*)*)", re.MULTILINE)
IMPORT = re.compile(r"^\s*from (agenttape_\w+(?:\.\w+)*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
WIDTH = 96


def page() -> str:
    """Return the page as the code says that it should be."""
    return "\n".join([HEAD, *(part for name, about in MODULES.items() for part in module_parts(name, about))])


def public(module: str) -> set[str]:
    """Return the public names of a module."""
    return set(SOME.get(module) or import_module(module).__all__)


def module_parts(name: str, about: str) -> Iterator[str]:
    """Yield the text about a module, name by name."""
    module = import_module(name)
    yield f"## {name}\n\n{about}\n"
    errors = [each for each in module.__all__ if is_error(getattr(module, each))]
    for each in sorted(public(name) - set(errors), key=str.lower):
        yield f"### {each}\n"
        yield from object_parts(each, getattr(module, each))
    if errors:
        yield "### Errors and warnings\n\nEach is explained in [errors](errors.md).\n\n| name | |\n|---|---|"
        yield from (row(f"`{each}`", getattr(module, each)) for each in errors)
        yield ""


def object_parts(name: str, thing: Any) -> Iterator[str]:
    """Yield the signature of a class, a function or an alias, what it says of itself, and its public members."""
    if isinstance(thing, FixtureFunctionDefinition):
        yield from fixture_parts(name, thing._get_wrapped_function())
        return
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        yield fenced(f"{name} = {shortly(thing)}")
        return
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    if inspect.isclass(thing) and issubclass(thing, Enum):
        yield fenced("\n".join(f"{name}.{each.name} = {each.value!r}" for each in thing))
    elif isinstance(tree, ast.ClassDef):
        yield fenced(signature(name, constructor(tree)))
    elif isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        yield fenced(signature(name, as_called(thing, tree)))
    yield from documented(inspect.cleandoc(thing.__doc__ or ""))
    rows = [row(f"`{shown}`", member) for shown, member in members(thing)]
    if rows:
        yield "\n".join(["| member | |", "|---|---|", *rows, ""])


def fixture_parts(name: str, function: Any) -> Iterator[str]:
    """Yield what a fixture gives; what it asks for is pytest's to know."""
    given = re.sub(r"Iterator\[(\w+)\]", r"\1", str(inspect.signature(function).return_annotation))
    yield fenced(f"{name}: {given}")
    yield from documented(inspect.cleandoc(function.__doc__))


class Verbatim(str):
    """An annotation that is shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


FunctionT = TypeVar("FunctionT", ast.FunctionDef, ast.AsyncFunctionDef)


def as_called(function: Any, tree: FunctionT) -> FunctionT:
    """Return the definition of a function with the arguments of its `__signature__`, if a decorator set one."""
    given = getattr(function, "__signature__", None)
    if given is not None:
        shown = [each.replace(annotation=Verbatim(each.annotation)) for each in given.parameters.values()]
        (called,) = ast.parse(f"def called{inspect.Signature(shown)}: ...").body
        assert isinstance(called, ast.FunctionDef)
        tree.args = called.args
    return tree


def constructor(tree: ast.ClassDef) -> ast.FunctionDef | ast.ClassDef:
    """Return what says how a class is made: its `__init__`, or the class with its fields."""
    made = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    return made[0] if made else tree


def signature(name: str, tree: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """Return a signature, on one line if it fits."""
    if isinstance(tree, ast.ClassDef):
        told = [each for each in tree.body if isinstance(each, ast.AnnAssign) and not name_of(each).startswith("_")]
        shown = [ast.unparse(each) for each in told if "ClassVar" not in ast.unparse(each.annotation)]
        result = ""
    else:
        shown = arguments(tree.args)
        result = f" -> {ast.unparse(tree.returns)}" if tree.returns and tree.name != "__init__" else ""
    said = "async " if isinstance(tree, ast.AsyncFunctionDef) else ""
    line = f"{said}{name}({', '.join(shown)}){result}"
    lines = [f"{said}{name}(", *(f"    {each}," for each in shown), f"){result}"]
    return line if len(line) <= WIDTH else "\n".join(lines)


def name_of(field: ast.AnnAssign) -> str:
    """Return the name of a field."""
    return ast.unparse(field.target)


def arguments(args: ast.arguments) -> list[str]:
    """Return arguments as they are written, without `self`."""
    plain = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(args.defaults)), *args.defaults]
    shown = [argument(*pair) for pair in zip(plain, defaults, strict=True) if pair[0].arg != "self"]
    if args.posonlyargs:
        shown.insert(len(args.posonlyargs), "/")
    star = [f"*{argument(args.vararg)}"] if args.vararg else ["*"] if args.kwonlyargs else []
    keywords = [argument(*pair) for pair in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return [*shown, *star, *keywords, *([f"**{argument(args.kwarg)}"] if args.kwarg else [])]


def argument(arg: ast.arg, default: ast.expr | None = None) -> str:
    """Return one argument as it is written."""
    annotated = f"{arg.arg}: {ast.unparse(arg.annotation)}" if arg.annotation else arg.arg
    equals = " = " if arg.annotation else "="
    return annotated if default is None else f"{annotated}{equals}{ast.unparse(default)}"


def documented(doc: str) -> Iterator[str]:
    """Yield a docstring, its sections as lists."""
    yield SECTION.sub("", doc).strip().replace("```python", "```text") + "\n"
    for section in SECTION.finditer(doc):
        entries = [(entry["name"], unwrapped(entry["text"])) for entry in ENTRY.finditer(section[2])]
        lines = [f"- `{name}`: {text}" for name, text in entries] or [unwrapped(section[2])]
        yield "\n".join([f"**{section[1]}**\n", *lines, ""])


def members(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class of ours defines, in their order, and how they are shown."""
    told = []
    for name, member in list(vars(thing).items()) if inspect.isclass(thing) else ():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function) and function.__doc__:
            told.append(
                (function.__code__.co_firstlineno, name if isinstance(member, property) else f"{name}()", function)
            )
    yield from ((shown, function) for _, shown, function in sorted(told, key=lambda each: each[:2]))


def row(shown: str, thing: Any) -> str:
    """Return a row of a table, with the first line of a docstring."""
    first = (thing.__doc__ or "").strip().partition("\n\n")[0]
    return f"| {shown} | {unwrapped(first).replace('|', chr(92) + '|')} |"


def is_error(thing: Any) -> bool:
    """Whether it is an exception or a warning."""
    return inspect.isclass(thing) and issubclass(thing, BaseException)


def shortly(alias: Any) -> str:
    """Return an alias without the modules of the names in it."""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(alias))


def fenced(text: str) -> str:
    """Return a block of code that is shown and not executed."""
    return f"```text\n{text}\n```\n"


def unwrapped(text: str) -> str:
    """Return text on one line."""
    return " ".join(text.split())


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    """What the page says is what the code says."""
    if request.config.getoption("update_examples"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_on_the_page(name: str) -> None:
    """Each name that a module exports has a heading or a row in the section of the module."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {name}\n")[1].split("\n## ")[0]
    shown = set(re.findall(r"^### (\w+)$|^\| `(\w+)` \|", section, re.MULTILINE))
    assert {name for pair in shown for name in pair if name} >= public(name)


@pytest.mark.parametrize(
    "text", sorted({PAGE.parents[1] / "README.md", *PAGE.parent.glob("*.md")}), ids=lambda p: p.name
)
def test_pages_import_what_is_public(text: Path) -> None:
    """What a page tells a reader to import is on the page about the API."""
    for module, several, one in IMPORT.findall(text.read_text(encoding="utf-8")):
        names = {name.split(" as ")[0].strip() for name in (several or one).partition("#")[0].split(",")} - {""}
        named = {name for name in names if f"{module}.{name}" not in MODULES}
        assert SAME.get(module, module) in MODULES, f"{module} is not on the page"
        assert named <= public(module), module
