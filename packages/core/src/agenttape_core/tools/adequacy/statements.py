"""Edits of code: the classic operators of mutation testing, each a small slip that a programmer could make.

The idea is DeMillo's, Lipton's and Sayward's ("Hints on test data selection", 1978); the operators are those that
cosmic-ray and mutmut have in common.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from agenttape_core.tools.adequacy.operators import Edit, Sought
from agenttape_core.tools.adequacy.texts import is_prose, is_unsent
from agenttape_core.tools.adequacy.trees import Site, name_of, with_fields, without

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
_UNMARKED = frozenset({"__all__", "__slots__", "__match_args__"})


def edits_of_code(site: Site) -> Iterator[Edit]:
    """Yield the edits of one node of code.

    Args:
        site: The place of the node.
    """
    if not site.is_run or not _is_within(site):
        return
    make = _BY_NODE.get(type(site.node))
    if make is not None:
        yield from make(site, site.node)


def _is_within(site: Site) -> bool:
    """Return whether code stands in a function, or in an assignment or a call of a module or a class."""
    if site.function is not None:
        return True
    statements = (node for node in site.parents if isinstance(node, ast.stmt))
    top = next((node for node in statements if not isinstance(node, ast.ClassDef)), None)
    if isinstance(top, ast.Assign | ast.AnnAssign):
        targets = top.targets if isinstance(top, ast.Assign) else [top.target]
        return not any(name_of(target) in _UNMARKED for target in targets)
    return isinstance(top, ast.Expr)


def _edit(operator: str, new: ast.AST) -> Edit:
    return Edit(operator, "code", new)


def _compare(_: Site, node: ast.Compare) -> Iterator[Edit]:
    for at, one in enumerate(node.ops):
        ops = [*node.ops[:at], _COMPARED[type(one)](), *node.ops[at + 1 :]]
        yield _edit("compare", with_fields(node, ops=ops))


def _boolean(_: Site, node: ast.BoolOp) -> Iterator[Edit]:
    yield _edit("and_or", with_fields(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))


def _not(_: Site, node: ast.UnaryOp) -> Iterator[Edit]:
    if isinstance(node.op, ast.Not):
        yield _edit("drop_not", node.operand)


def _computed(_: Site, node: ast.BinOp) -> Iterator[Edit]:
    is_text = any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )
    if type(node.op) in _COMPUTED and not is_text:
        yield _edit("arithmetic", with_fields(node, op=_COMPUTED[type(node.op)]()))


def _constant(site: Site, node: ast.Constant) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, bool):
        yield _edit("true_false", ast.Constant(not value))
    elif isinstance(value, int | float):
        yield _edit("number", ast.Constant(value + 1))
    elif isinstance(value, str) and value and not _is_text(site):
        yield Edit("string", "code", ast.Constant(f"XX{value}XX"), Sought((value,)))


def _is_text(site: Site) -> bool:
    """Return whether a text is edited otherwise, or goes to nobody that could notice."""
    is_part = isinstance(site.parent, ast.JoinedStr | ast.FormattedValue)
    return is_part or site.is_docstring or is_unsent(site) or is_prose(site)


def _return(_: Site, node: ast.Return) -> Iterator[Edit]:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield _edit("return_none", with_fields(node, value=ast.Constant(None)))


def _dropped(site: Site, node: Any) -> Iterator[Edit]:
    if isinstance(node, ast.Expr):
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        is_worth_it = isinstance(value, ast.Call) and not is_unsent(
            Site(value, site.path, (*site.parents, node, value))
        )
    elif isinstance(node, ast.Assign):
        is_worth_it = all(isinstance(target, ast.Subscript | ast.Attribute) for target in node.targets)
    else:
        is_worth_it = True
    if is_worth_it and site.function is not None:
        yield _edit("drop_statement", ast.Pass())


def _branches(_: Site, node: ast.If) -> Iterator[Edit]:
    yield _edit("negate_condition", with_fields(node, test=ast.UnaryOp(ast.Not(), node.test)))


def _choice(_: Site, node: ast.IfExp) -> Iterator[Edit]:
    if ast.dump(node.body) != ast.dump(node.orelse):
        yield _edit("swap_branches", with_fields(node, body=node.orelse, orelse=node.body))


def _filter(_: Site, node: ast.comprehension) -> Iterator[Edit]:
    for at in range(len(node.ifs)):
        yield _edit("drop_filter", with_fields(node, ifs=without(node.ifs, at)))


def _break(_: Site, __: ast.Break) -> Iterator[Edit]:
    yield _edit("break_continue", ast.Continue())


def _continue(_: Site, __: ast.Continue) -> Iterator[Edit]:
    yield _edit("break_continue", ast.Break())


_BY_NODE: dict[type[ast.AST], Callable[[Site, Any], Iterator[Edit]]] = {
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _not,
    ast.BinOp: _computed,
    ast.Constant: _constant,
    ast.Return: _return,
    ast.Expr: _dropped,
    ast.Assign: _dropped,
    ast.AugAssign: _dropped,
    ast.Delete: _dropped,
    ast.Raise: _dropped,
    ast.If: _branches,
    ast.IfExp: _choice,
    ast.comprehension: _filter,
    ast.Break: _break,
    ast.Continue: _continue,
}
