"""The mutants of a file: all small edits of it, each with an id from which it can be made again."""

from __future__ import annotations

import ast
import difflib
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.experiments.result import cut
from agenttape_core.experiments.strategies.mutants.texts import (
    Edit,
    Function,
    Kind,
    Site,
    Sought,
    edits_of_text,
    is_evident,
    is_tool_like,
    name_of,
    replace,
    sites,
    with_fields,
    without,
)

# -- Edits of schemas: of the arguments of tools and of structured answers, as classes, functions or plain data.


_OTHER_TYPES = {"str": "int", "int": "str", "float": "str", "bool": "str"}
_OTHER_WORDS = {"string": "integer", "integer": "string", "number": "string", "boolean": "string"}
_ENUMS = frozenset({"Enum", "StrEnum", "IntEnum"})
_DECLARING = frozenset({"Field", "Query", "Param"})
_RUNTIME = frozenset({"self", "cls", "config", "runtime", "state", "ctx", "context", "run_manager"})
"""Parameters that frameworks fill in, and models do not see."""


def _edits_of_schema(site: Site) -> Iterator[Edit]:
    """Yield the edits of one node of a schema."""
    node = site.node
    if isinstance(node, ast.AnnAssign) and isinstance(site.parent, ast.ClassDef):
        yield from _field(site.parent, node)
    elif isinstance(node, ast.ClassDef) and _ENUMS & {name_of(base) for base in node.bases}:
        yield from _members(node)
    elif isinstance(node, Function):
        yield from _parameters(site, node)
    elif isinstance(node, ast.Dict):
        yield from _plain(node)


def _is_schema_like(site: Site) -> bool:
    """Return whether a schema is declared as such, so that it is worth a line if no request holds it."""
    node = site.parent if isinstance(site.node, ast.AnnAssign) else site.node
    if isinstance(node, ast.ClassDef):
        return any(name_of(base) == "BaseModel" for base in node.bases)
    return isinstance(node, Function) and is_tool_like(node)


def _field(owner: ast.ClassDef, node: ast.AnnAssign) -> Iterator[Edit]:
    fields = tuple(name_of(item.target) for item in owner.body if isinstance(item, ast.AnnAssign))
    if not fields or not name_of(node.target).strip("_"):
        return
    sought = Sought(fields=fields)

    def edit(operator: str, new: ast.AST) -> Edit:
        return Edit(operator, "schemas", new, sought)

    yield edit("drop_field", ast.Pass())
    for operator, annotation in _annotations(node.annotation):
        yield edit(operator, with_fields(node, annotation=annotation))
    value = node.value
    if value is None:
        optional = ast.BinOp(node.annotation, ast.BitOr(), ast.Constant(None))
        yield edit("optional", with_fields(node, annotation=optional, value=ast.Constant(None)))
    elif not (isinstance(value, ast.Call) and name_of(value) in _DECLARING):
        yield edit("required", with_fields(node, value=None))
    else:
        for operator, call in _declared(value):
            yield edit(operator, with_fields(node, value=call))


def _declared(call: ast.Call) -> Iterator[tuple[str, ast.Call]]:
    """Yield what can be left out of a `Field(...)`."""
    defaults = {"default", "default_factory"}
    named = [keyword.arg for keyword in call.keywords]
    for at, name in enumerate(named):
        if name is None:
            continue
        operator = "required" if name in defaults else f"drop_{name}"
        yield operator, with_fields(call, keywords=without(call.keywords, at))
    if call.args and not (isinstance(call.args[0], ast.Constant) and call.args[0].value is ...):
        yield "required", with_fields(call, args=call.args[1:])
    elif not call.args and not defaults & set(named):
        yield "optional", with_fields(call, keywords=[*call.keywords, ast.keyword("default", ast.Constant(None))])


def _annotations(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield other types, each with the name of its operator."""
    if isinstance(node, ast.Name) and node.id in _OTHER_TYPES:
        yield "type", ast.Name(_OTHER_TYPES[node.id], ast.Load())
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from (("type", with_fields(node, left=left)) for _, left in _annotations(node.left))
    elif isinstance(node, ast.Subscript):
        yield from _subscripts(node)


def _subscripts(node: ast.Subscript) -> Iterator[tuple[str, ast.expr]]:
    name, inner = name_of(node), node.slice
    items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name == "Literal" and len(items) > 1:
        for at in range(len(items)):
            rest = without(items, at)
            yield "drop_value", with_fields(node, slice=rest[0] if len(rest) == 1 else ast.Tuple(rest, ast.Load()))
    elif name == "Annotated" and isinstance(inner, ast.Tuple):
        for operator, other in _annotations(items[0]):
            yield operator, with_fields(node, slice=with_fields(inner, elts=[other, *items[1:]]))
        for at, item in enumerate(items[1:], 1):
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                kept = without(items, at)
                new = kept[0] if len(kept) == 1 else with_fields(node, slice=with_fields(inner, elts=kept))
                yield "drop_description", new
            elif isinstance(item, ast.Call) and name_of(item) in _DECLARING:
                for operator, call in _declared(item):
                    elts = [*items[:at], call, *items[at + 1 :]]
                    yield operator, with_fields(node, slice=with_fields(inner, elts=elts))
    elif name in {"list", "List", "Sequence", "Optional"}:
        yield "type", inner
        yield from ((operator, with_fields(node, slice=other)) for operator, other in _annotations(inner))


def _members(node: ast.ClassDef) -> Iterator[Edit]:
    members = [at for at, item in enumerate(node.body) if isinstance(item, ast.Assign)]
    for at in members if len(members) > 1 else ():
        item = node.body[at]
        value = item.value if isinstance(item, ast.Assign) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            new = with_fields(node, body=without(node.body, at))
            before = ast.unparse(item)
            yield Edit("drop_value", "schemas", new, Sought((value.value,)), before)


def _parameters(site: Site, node: Function) -> Iterator[Edit]:
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    visible = tuple(arg.arg for arg in every if arg.arg not in _RUNTIME)
    if isinstance(site.parent, ast.ClassDef) or not visible:
        return
    sought = Sought(tool=node.name, fields=visible if is_tool_like(node) else ())

    def edit(operator: str, new: ast.arguments, before: str, after: str) -> Edit:
        return Edit(operator, "schemas", with_fields(node, args=new), sought, before, after)

    for which in ("args", "kwonlyargs"):
        for at, arg in enumerate(getattr(args, which)):
            for operator, annotation in _annotations(arg.annotation) if arg.annotation and arg.arg in visible else ():
                other = with_fields(arg, annotation=annotation)
                listed = [*getattr(args, which)[:at], other, *getattr(args, which)[at + 1 :]]
                yield edit(operator, with_fields(args, **{which: listed}), ast.unparse(arg), ast.unparse(other))
    first = len(args.args) - len(args.defaults)
    if args.defaults:
        arg = args.args[first] if first >= 0 else args.posonlyargs[first]
        shown = f"{ast.unparse(arg)}={ast.unparse(args.defaults[0])}"
        yield edit("required", with_fields(args, defaults=args.defaults[1:]), shown, ast.unparse(arg))
    if args.args and first > 0 and (arg := args.args[first - 1]).arg in visible:
        defaults = [ast.Constant(None), *args.defaults]
        yield edit("optional", with_fields(args, defaults=defaults), ast.unparse(arg), f"{ast.unparse(arg)}=None")
    renamed = f"{node.name}_renamed"
    shown = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    # The decorator gives the function another name, and keeps the name in the code.
    renaming = ast.parse(f"lambda function: setattr(function, '__name__', {renamed!r}) or function", mode="eval").body
    decorated = with_fields(node, decorator_list=[*node.decorator_list, renaming])
    yield Edit("rename", "tools", decorated, sought, f"{shown} {node.name}(…)", f"{shown} {renamed}(…)")


def _plain(node: ast.Dict) -> Iterator[Edit]:
    """Yield the edits of a JSON Schema that is written as a dictionary."""
    held = {key.value: at for at, key in enumerate(node.keys) if isinstance(key, ast.Constant)}
    at = held.get("properties")
    properties = node.values[at] if at is not None else None
    if at is None or not isinstance(properties, ast.Dict):
        return
    names = tuple(str(key.value) for key in properties.keys if isinstance(key, ast.Constant))
    sought = Sought(fields=names)

    def edit(operator: str, new: ast.Dict, before: str, after: str = "") -> Edit:
        return Edit(operator, "schemas", new, sought, before, after)

    def with_properties(values: list[ast.expr], keys: list[ast.expr | None]) -> ast.Dict:
        changed = with_fields(properties, keys=keys, values=values)
        return with_fields(node, values=[*node.values[:at], changed, *node.values[at + 1 :]])

    for number, (key, value) in enumerate(zip(properties.keys, properties.values, strict=True)):
        shown = f"{ast.unparse(key) if key is not None else '**'}: {ast.unparse(value)}"
        rest = without(properties.values, number), without(properties.keys, number)
        yield edit("drop_field", with_properties(*rest), shown)
        for operator, other in _property(value) if isinstance(value, ast.Dict) else ():
            values = [*properties.values[:number], other, *properties.values[number + 1 :]]
            yield edit(operator, with_properties(values, properties.keys), ast.unparse(value), ast.unparse(other))
    required = node.values[held["required"]] if "required" in held else None
    if isinstance(required, ast.List):
        for number, item in enumerate(required.elts):
            changed = with_fields(required, elts=without(required.elts, number))
            values = [changed if value is required else value for value in node.values]
            yield edit("optional", with_fields(node, values=values), ast.unparse(item))


def _property(node: ast.Dict) -> Iterator[tuple[str, ast.Dict]]:
    for at, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
        name = key.value if isinstance(key, ast.Constant) else None
        if name == "description":
            yield "drop_description", with_fields(node, keys=without(node.keys, at), values=without(node.values, at))
        elif name == "type" and isinstance(value, ast.Constant) and value.value in _OTHER_WORDS:
            other = ast.Constant(_OTHER_WORDS[str(value.value)])
            yield "type", with_fields(node, values=[*node.values[:at], other, *node.values[at + 1 :]])
        elif name == "enum" and isinstance(value, ast.List) and len(value.elts) > 1:
            for number in range(len(value.elts)):
                other_list = with_fields(value, elts=without(value.elts, number))
                yield "drop_value", with_fields(node, values=[*node.values[:at], other_list, *node.values[at + 1 :]])


_SHOWN = 100  # characters of a line of a diff
_AROUND = 30  # characters before what differs, if a line is too long


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small edit of a file.

    Args:
        id: The file, the line and the operator, with a number if there are several: `desk.py:12:compare~2`.
        file: The file as messages show it.
        line: The number of the line.
        last: The number of the last edited line.
        kind: The part that is edited.
        operator: The name of the operator.
        before: The original text, on one line.
        after: The text after the edit; empty if it's removed.
        sought: What a recorded request holds if the edit reaches it.
        lines: The first and the last of the lines that are run if the edit is.
        is_evident: Whether the report lists it if no test reaches it.
        in_function: Whether it's in a function, and not at the top of a module or a class.
    """

    id: str
    file: str
    line: int
    last: int
    kind: Kind
    operator: str
    before: str
    after: str
    sought: Sought = field(default=Sought(), repr=False)
    lines: tuple[int, int] = (0, 0)
    is_evident: bool = False
    in_function: bool = False

    @property
    def diff(self) -> str:
        """The edit as a diff of one line."""
        return f"- {self.before}" + (f"\n+ {self.after}" if self.after else "")


def read_source(path: Path) -> str:
    """Return the text of a Python file, in the encoding that it declares."""
    try:
        with tokenize.open(path) as file:
            text = file.read()
        ast.parse(text)
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError) as error:
        raise ConfigurationError(
            f"{shown_path(path)} cannot be read as Python: {error}\n  mend it, or leave it out with --source"
        ) from error
    return text


def mutants_of(source: str, file: str, *, is_test: bool = False) -> list[Mutant]:
    """Return the mutants of a file, in the order of its lines."""
    edits = _edits_of(ast.parse(source), file, is_test=is_test)
    return [_mutant(one, file, site, edit) for one, site, edit in edits]


def mutated(source: str, mutant: str, *, file: str, is_test: bool = False) -> ast.Module:
    """Return the tree of a file with one edit."""
    tree = ast.parse(source)
    found = {one: (site, edit) for one, site, edit in _edits_of(tree, file, is_test=is_test)}
    if mutant in found:
        site, edit = found[mutant]
        return replace(tree, site.path, edit.new)
    known = list(found)
    near = difflib.get_close_matches(mutant, known, n=3)
    raise ConfigurationError(
        f"there is no mutant {mutant!r}; {file} has {len(known)}" + (f", such as {', '.join(near)}" if near else "")
    )


def _edits_of(tree: ast.Module, file: str, *, is_test: bool) -> Iterator[tuple[str, Site, Edit]]:
    """Yield all edits of a file with their ids, in the order of its lines."""
    numbers: Counter[tuple[int, str]] = Counter()
    found = [
        (site, edit)
        for site in sites(tree)
        if not (is_test and _is_of_test(site))
        for edit in (*edits_of_text(site), *_edits_of_schema(site))
    ]
    for site, edit in sorted(found, key=lambda pair: _line(pair[0])):
        at = (_line(site), edit.operator)
        numbers[at] += 1
        yield f"{file}:{at[0]}:{edit.operator}" + (f"~{numbers[at]}" if numbers[at] > 1 else ""), site, edit


def _mutant(name: str, file: str, site: Site, edit: Edit) -> Mutant:
    before, after = _shown(site, edit)
    line, lines = _line(site), site.lines
    return Mutant(
        id=name,
        file=file,
        line=line,
        last=_last(site, line),
        kind=edit.kind,
        operator=edit.operator,
        before=before,
        after=after,
        sought=edit.sought,
        lines=(lines.start, lines.stop - 1),
        is_evident=is_evident(site) if edit.operator == "empty" else _is_schema_like(site),
        # A docstring or a signature takes effect before the function is called.
        in_function=site.function is not None and not site.is_docstring and not isinstance(site.node, Function),
    )


def _line(site: Site) -> int:
    for node in (site.node, *reversed(site.parents)):
        if line := getattr(node, "lineno", 0):
            return int(line)
    return 1


def _last(site: Site, line: int) -> int:
    node = site.node
    if isinstance(node, ast.If):
        node = node.test
    if isinstance(node, Function):
        return max(line, node.body[0].lineno - 1)
    return int(getattr(node, "end_lineno", None) or line)


def _is_of_test(site: Site) -> bool:
    """Return whether a place belongs to a test or a fixture: to edit these would be to edit what judges."""
    for node in (*site.parents, site.node):
        if isinstance(node, ast.ClassDef | Function) and node.name.lower().startswith("test"):
            return True
        if isinstance(node, Function) and any(name_of(one) == "fixture" for one in node.decorator_list):
            return True
    top = next((node for node in site.parents if isinstance(node, ast.stmt)), None)
    return isinstance(top, ast.Assign) and any(name_of(target) == "pytestmark" for target in top.targets)


def _shown(site: Site, edit: Edit) -> tuple[str, str]:
    """Return the old and the new text of a place, each as one line with the difference."""
    if edit.before:
        return _cut(edit.before, edit.after)
    anchor = site.anchor
    return _cut(_unparsed(anchor), _unparsed(_exchanged(anchor, site.node, edit.new)))


def _exchanged(tree: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    """Return a small tree with one node replaced; the others are shared."""
    if tree is old:
        return new

    def other(value: Any) -> Any:
        if isinstance(value, list):
            return [other(item) for item in value]
        return _exchanged(value, old, new) if isinstance(value, ast.AST) else value

    return with_fields(tree, **{name: other(value) for name, value in ast.iter_fields(tree)})


def _unparsed(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())


def _cut(before: str, after: str) -> tuple[str, str]:
    """Return two lines, cut around the first place where they differ if they are long."""
    if max(len(before), len(after)) <= _SHOWN:
        return before, after
    common = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    first = max(0, common - _AROUND)
    start = "…" if first else ""
    one, other = (f"{start}{cut(line[first:], _SHOWN)}" for line in (before, after))
    return one, other
