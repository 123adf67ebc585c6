"""`--cassette-lab=orders`: each test that passes is run again with its calls answered in other orders."""

from __future__ import annotations

import pytest

from .conftest import Project

pytestmark = pytest.mark.process

SUITE = """
import asyncio
from agenttape_core import boundary, use_cassette

@boundary("tool")
async def search(place):
    await asyncio.sleep(0)
    return place

async def first_of(*places):
    log = []
    async def one(place):
        log.append(await search(place))
    await asyncio.gather(*map(one, places))
    return log

@pytest.mark.cassette(mode="once")
def test_racy():
    assert asyncio.run(first_of("a", "b"))[0] == "a"

@pytest.mark.cassette(mode="once")
def test_sound():
    assert sorted(asyncio.run(first_of("a", "b"))) == ["a", "b"]

@pytest.mark.cassette(mode="once")
def test_alone():
    assert asyncio.run(first_of("a")) == ["a"]

@pytest.mark.cassette(mode="once")
def test_asks_less():
    async def program():
        for first in asyncio.as_completed([search("a"), search("b")]):
            return await first
    assert asyncio.run(program()) in "ab"

def test_two():
    with use_cassette("one.yaml", mode="once"):
        assert asyncio.run(first_of("a", "b"))
    with use_cassette("other.yaml", mode="once"):
        assert asyncio.run(first_of("a", "b"))[0] == "a"

def test_none():
    pass
"""


@pytest.fixture
def recorded(project: Project) -> Project:
    """A project with recorded tests."""
    project.tests(SUITE)
    project.run("-q").assert_outcomes(passed=6)
    return project


def test_a_race_fails_and_the_summary_lists_all(recorded: Project) -> None:
    """The test itself has passed; its exploration says which order breaks it, and how to see that again."""
    result = recorded.run("--cassette-lab=orders", "-q")
    result.assert_outcomes(passed=6, errors=2)
    result.stdout.fnmatch_lines(
        [
            "test_it.py::test_racy depends on timing: 1 of all 2 possible orders give another result",
            "*reproduce:  pytest test_it.py::test_racy --cassette-order=2",
            "*reproduce:  pytest test_it.py::test_two --cassette-order=other:2",
            "*= orders =*",
            "test_it.py::test_sound over *: the same in 2 orders of 2 calls (all that there are)",
            "test_it.py::test_alone over *: no calls wait side by side, so there is one order only",
        ]
    )


@pytest.mark.parametrize(
    ("test", "order", "failed"),
    [
        pytest.param("test_racy", "2", 1, marks=pytest.mark.night),
        ("test_racy", "1,2", 0),
        ("test_two", "other:2", 1),
        pytest.param("test_two", "one:2", 0, marks=pytest.mark.night),
    ],
)
def test_the_printed_line_makes_it_again(recorded: Project, test: str, order: str, failed: int) -> None:
    """`--cassette-order` imposes the order on the cassette that it names, or on all."""
    result = recorded.run("-q", f"test_it.py::{test}", f"--cassette-order={order}")
    result.assert_outcomes(failed=failed, passed=1 - failed)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cassette-lab=orders:0"], "expected the number of orders"),
        (["--cassette-lab=orders", "--cassette-order=2"], "excludes"),
        (["--cassette-order=first"], "expected numbers of calls"),
    ],
)
def test_bad_options_are_refused(project: Project, options: list[str], said: str) -> None:
    """Before a test runs."""
    project.run(*options).stderr.fnmatch_lines([f"*{said}*"])
