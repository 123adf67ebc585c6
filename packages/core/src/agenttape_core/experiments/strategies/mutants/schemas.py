"""Edits of schemas: of the arguments of tools and of structured answers, as classes, functions or plain data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agenttape_core.experiments.strategies.mutants.sites import (
    Edit,
    Function,
    Site,
    Sought,
    name_of,
    with_fields,
    without,
)
from agenttape_core.experiments.strategies.mutants.texts import is_tool_like

_OTHER_TYPES = {"str": "int", "int": "str", "float": "str", "bool": "str"}
_OTHER_WORDS = {"string": "integer", "integer": "string", "number": "string", "boolean": "string"}
_ENUMS = frozenset({"Enum", "StrEnum", "IntEnum"})
_DECLARING = frozenset({"Field", "Query", "Param"})
_RUNTIME = frozenset({"self", "cls", "config", "runtime", "state", "ctx", "context", "run_manager"})
"""Parameters that frameworks fill in, and models do not see."""


def edits_of_schema(site: Site) -> Iterator[Edit]:
    """Yield the edits of one node of a schema.

    Args:
        site: The place of the node.
    """
    node = site.node
    if isinstance(node, ast.AnnAssign) and isinstance(site.parent, ast.ClassDef):
        yield from _field(site.parent, node)
    elif isinstance(node, ast.ClassDef) and _ENUMS & {name_of(base) for base in node.bases}:
        yield from _members(node)
    elif isinstance(node, Function):
        yield from _parameters(site, node)
    elif isinstance(node, ast.Dict):
        yield from _plain(node)


def is_schema_like(site: Site) -> bool:
    """Return whether a schema is declared as such, so that it is worth a line if no request holds it."""
    node = site.parent if isinstance(site.node, ast.AnnAssign) else site.node
    if isinstance(node, ast.ClassDef):
        return any(name_of(base) == "BaseModel" for base in node.bases)
    return isinstance(node, Function) and is_tool_like(node)


def _fields_of(owner: ast.ClassDef) -> tuple[str, ...]:
    return tuple(name_of(item.target) for item in owner.body if isinstance(item, ast.AnnAssign))


def _field(owner: ast.ClassDef, node: ast.AnnAssign) -> Iterator[Edit]:
    fields = _fields_of(owner)
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

    for field in ("args", "kwonlyargs"):
        for at, arg in enumerate(getattr(args, field)):
            for operator, annotation in _annotations(arg.annotation) if arg.annotation and arg.arg in visible else ():
                other = with_fields(arg, annotation=annotation)
                listed = [*getattr(args, field)[:at], other, *getattr(args, field)[at + 1 :]]
                yield edit(operator, with_fields(args, **{field: listed}), ast.unparse(arg), ast.unparse(other))
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
    decorated = with_fields(node, decorator_list=[*node.decorator_list, _renaming(renamed)])
    yield Edit("rename", "tools", decorated, sought, f"{shown} {node.name}(…)", f"{shown} {renamed}(…)")


def _renaming(name: str) -> ast.expr:
    """Return a decorator that gives a function another name, and leaves that by which the code knows it."""
    source = f"lambda function: setattr(function, '__name__', {name!r}) or function"
    return ast.parse(source, mode="eval").body


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
