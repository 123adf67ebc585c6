"""Mutants: each is one small edit of a file, always the same, and always Python."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.strategies.mutants import Requests
from agenttape_core.experiments.strategies.mutants.edits import mutants_of, mutated
from agenttape_core.experiments.strategies.mutants.texts import Sought, negated

NAMES = st.sampled_from(["a", "b", "texts", "answer"])
WORDS = st.sampled_from(
    ["Be brief.", "You must ask first.", "Never say {name}!", "dune", "Use {a} and {b}.", "x\ny z."]
)
TEXTS = st.lists(WORDS, max_size=3).map(" ".join)
VALUES: st.SearchStrategy[str] = st.recursive(
    st.one_of(NAMES, st.integers(0, 9).map(str), st.booleans().map(str), TEXTS.map(repr), st.just("None")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["<", "==", "in", "is not", "+", "*", "and", "or"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        inner.map(lambda one: f"(not {one})"),
        st.tuples(inner, inner, inner).map(lambda three: f"({three[0]} if {three[1]} else {three[2]})"),
        st.tuples(NAMES, inner).map(lambda two: f"{two[0]}({two[1]}, key={two[1]})"),
        inner.map(lambda one: f"[item for item in {one} if item]"),
        st.tuples(NAMES, inner).map(lambda two: f"{{'type': 'object', 'properties': {{'{two[0]}': {two[1]}}}}}"),
        NAMES.map(lambda one: f"f'There are {{{one}}} of {{b}}. Ask.'"),
    ),
    max_leaves=6,
)
STATEMENTS = st.one_of(
    VALUES.map(lambda value: f"return {value}"),
    st.tuples(NAMES, VALUES).map(lambda two: f"{two[0]} = {two[1]}"),
    st.tuples(NAMES, VALUES).map(lambda two: f"{two[0]}['x'] += {two[1]}"),
    VALUES.map(lambda value: f"if {value}:\n        a(b)\n    else:\n        raise a"),
    VALUES.map(lambda value: f"while {value}:\n        break"),
    VALUES.map(lambda value: f"for a in {value}:\n        continue"),
)
FUNCTIONS = st.tuples(
    st.sampled_from(["", "@tool\n"]),
    st.sampled_from(["a: str, b: int = 3", "a, *, b: list[str] | None = None", ""]),
    TEXTS,
    st.lists(STATEMENTS, min_size=1, max_size=3),
).map(lambda four: f"{four[0]}def answer({four[1]}):\n    {four[2]!r}\n    " + "\n    ".join(four[3]))
CLASSES = st.tuples(st.sampled_from(["BaseModel", "Enum", "TypedDict"]), VALUES).map(
    lambda two: (
        f"class A({two[0]}):\n    'What it is. Say more.'\n    a: Literal['x', 'y'] = {two[1]}\n    RED = 'red'\n"
        "    BLUE = 'blue'\n    c: Annotated[str, 'the colour'] = Field(default='x', description='A title.')"
    )
)
SOURCES = st.lists(st.one_of(FUNCTIONS, CLASSES, VALUES.map(lambda value: f"A = {value}")), min_size=1, max_size=2).map(
    "\n\n".join
)


@given(SOURCES)
@settings(max_examples=15, deadline=None)
def test_each_mutant_is_one_edit(source: str) -> None:
    """A mutant always compiles, differs from the file in one place, and can be made again from its id."""

    def differences(one: Any, other: Any) -> int:
        """Return how many places of two trees differ, of which none stands in another."""
        if type(one) is not type(other):
            return 1
        if isinstance(one, ast.AST):
            return sum(differences(getattr(one, name, None), getattr(other, name, None)) for name in one._fields)
        if isinstance(one, list):
            if len(one) != len(other):
                return 1
            return sum(differences(mine, theirs) for mine, theirs in zip(one, other, strict=True))
        return int(one != other)

    found = mutants_of(source, "a.py")
    assert len({one.id for one in found}) == len(found)
    original = ast.parse(source)
    for one in found[:: max(1, len(found) // 8)]:
        tree = mutated(source, one.id, file="a.py")
        compile(tree, "a.py", "exec")
        count = differences(original, tree)
        # Two placeholders that change places are two expressions, and one edit.
        assert 1 <= count <= (3 if one.operator == "swap_placeholders" else 2), one
        assert ast.dump(tree) == ast.dump(mutated(source, one.id, file="a.py"))
        assert one.before != one.after
    assert mutants_of(source, "a.py") == found


def test_unknown() -> None:
    """A mutant that there is not is refused with those that are alike."""
    with pytest.raises(ConfigurationError, match=r"there is no mutant 'a.py:1:emty'; a.py has 2, such as a.py:1:empty"):
        mutated("A = 'It is here.'", "a.py:1:emty", file="a.py")


def test_tests_stay_as_they_are() -> None:
    """In a file of tests, tests and fixtures are not edited: they are what judges."""
    fixture = "@pytest.fixture\ndef one():\n    return 'It is here.'\n"
    source = (
        f"PROMPT = 'Be brief.'\n\n{fixture}\ndef test_it():\n    assert PROMPT == 'Be brief.'\n\n"
        "def helper():\n    return 'It is here.'\n"
    )
    assert {one.line for one in mutants_of(source, "test_a.py", is_test=True)} == {1, 11}


@pytest.mark.parametrize(
    ("sentence", "other"),
    [
        ("You must not promise dates.", "You must promise dates."),
        ("Never promise dates.", "Always promise dates."),
        ("It is here.", "It is not here."),
        ("Use the tools.", "Do not use the tools."),
        ("The weather.", None),
    ],
)
def test_negated(sentence: str, other: str | None) -> None:
    """A sentence is negated by its own words, or not at all."""
    assert negated(sentence) == other


def test_requests() -> None:
    """A request holds texts with any white space, tools by their names, and schemas with at least these fields."""
    held = Requests.of(
        [
            {"messages": ["Be\n  brief. There are 3 of Dune."]},
            {"tools": [{"name": "stock", "parameters": {"properties": {"title": {}, "year": {}}}}]},
        ]
    )
    assert held.holds(Sought(("Be brief.", "of Dune.")))
    assert not held.holds(Sought(("Be brief.", "stock")))
    assert held.holds(Sought(tool="stock"))
    assert held.holds(Sought(fields=("title",)))
    assert not held.holds(Sought(tool="messages", fields=("title", "author")))
