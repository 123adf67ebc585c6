"""What became of the cassettes is told once, in words and in JUnit's properties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import UnrecordedCallError
from agenttape_core.pytest_plugin.naming import cassette_of, folder_of, safe
from agenttape_core.pytest_plugin.verdict import Verdict
from agenttape_core.pytest_plugin.whole_run import summary
from agenttape_core.schema import Interaction, Outcome, Usage
from agenttape_core.tools.reading import prices

from .conftest import Project


def asked(number: int, model: str) -> Interaction:
    """Return a call of a model."""
    usage = Usage(input_tokens=1000, output_tokens=200)
    outcome = Outcome(status="returned", value="Hello", usage=usage)
    return Interaction(
        number=number,
        kind="chat",
        name="m",
        address=f"m#{number}",
        fingerprint="0",
        request={"model": model},
        outcome=outcome,
    )


def test_money(tmp_path: Path) -> None:
    """What replayed calls of models with a known price cost when recorded is what was saved; others are counted."""
    with use_cassette(tmp_path / "c.yaml", mode="all") as session:
        pass
    verdict = Verdict.of(session, [asked(1, "gpt-5-2025-08-07"), asked(2, "nobody-knows")], 0.0, tmp_path)
    assert (verdict.dollars, verdict.unpriced) == (0.00325, 1)
    (line,) = summary([replace(verdict, replayed=2)], everything=False)[1:]
    assert line == (
        "1 cassette replayed, 2 calls; saved 0.0 s and about $0.0032 (1 call of models without a known price)"
    )


def test_no_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without prices, the summary does not speak of money."""
    monkeypatch.setattr(prices, "_installed", prices.NoPrices)
    with use_cassette(tmp_path / "c.yaml", mode="all") as session:
        pass
    verdict = Verdict.of(session, [asked(1, "gpt-5")], 0.0, tmp_path)
    assert (verdict.dollars, verdict.unpriced) == (0.0, 0)


def test_refused_calls_are_named(tmp_path: Path) -> None:
    """A run that lives on after misses stays green, so the summary names the calls that got an error result."""

    @boundary("tool")
    def look_up(city: str) -> str:
        """Look a city up."""
        return city

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        pass
    with use_cassette(tmp_path / "c.yaml", on_miss="return") as session:
        for city in ("Rome", "Oslo", "Nice", "Bari"):
            with pytest.raises(UnrecordedCallError):
                look_up(city)
    lines = summary([Verdict.of(session, [], 0.0, tmp_path)], everything=False)
    assert lines[0] == "unrecorded calls c.yaml  4 unrecorded"
    assert lines[1].startswith("          unrecorded: look_up was called with a request ")
    assert lines[4] == "          and 1 more"


@pytest.mark.process
def test_many(project: Project) -> None:
    """Of many tests, those that were replayed as they should be are counted, and listed with -v."""
    project.tests("""
@pytest.mark.cassette
@pytest.mark.parametrize("n", range(5))
def test_it(n):
    assert ask(n)
""")
    project.record()
    path = project.path / "cassettes" / "test_it" / "test_it[3].yaml"
    path.unlink()
    result = project.run("--cassette-mode=once")
    result.stdout.fnmatch_lines(
        ["recorded  cassettes/test_it/test_it[[]3].yaml*", "4 cassettes replayed, 4 calls; 1 call recorded*"]
    )
    result.stdout.no_fnmatch_line("*[[]4].yaml*")
    project.run("-v").stdout.fnmatch_lines(["replayed  cassettes/test_it/test_it[[]4].yaml*"])


@pytest.mark.process
def test_junit(project: Project) -> None:
    """JUnit's file has the numbers of each test as properties."""
    project.tests("@pytest.mark.cassette\ndef test_it():\n    assert ask('hi')\n")
    project.record()
    project.run("--junitxml=junit.xml")
    text = (project.path / "junit.xml").read_text()
    assert '<property name="cassette.path" value="cassettes/test_it/test_it.yaml"' in text
    assert '<property name="cassette.word" value="replayed"' in text
    assert '<property name="cassette.replayed" value="1"' in text


@pytest.mark.process
def test_what_fails_before_the_test(project: Project) -> None:
    """A cassette that could not be opened, and one that a fixture asked in vain, have a line and properties too."""
    before = dedent("""
        @pytest.mark.cassette
        def test_missing():
            ask("hi")

        @pytest.mark.cassette(mod="all")
        def test_mistaken():
            ask("hi")

        @pytest.fixture
        def warm():
            return ask("other") if WARM else ask("warm")

        @pytest.mark.cassette("warm")
        def test_warm(warm):
            pass

        @pytest.mark.cassette("warm")
        def test_skipped(request):
            pytest.skip("no")

        @pytest.fixture
        def skips():
            pytest.skip("no")

        @pytest.mark.cassette("warm")
        def test_skipped_before(skips):
            pass
    """)

    project.tests(f"WARM = False\n{before}")
    project.run("--cassette-mode=once", "-k", "test_warm").assert_outcomes(passed=1)
    project.tests(f"WARM = True\n{before}")
    result = project.run("--junitxml=junit.xml", "-k", "not test_skipped or test_skipped_before")
    result.assert_outcomes(errors=3, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "missing   cassettes/test_it/test_missing.yaml",
            "cannot open cassettes/test_it/test_mistaken.yaml",
            "missed    cassettes/warm.yaml  1 missed, 1 unused",
        ],
        consecutive=True,
    )
    text = (project.path / "junit.xml").read_text()
    assert [text.count(f'name="cassette.word" value="{word}"') for word in ("missing", "cannot open", "missed")] == [
        1
    ] * 3


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_two_names_are_one_file(one: str, other: str) -> None:
    """Different tests have different files, whatever their parameters are, and each may be the name of a file."""
    assert (safe(one) == safe(other)) == (one == other)
    assert len(safe(one)) <= 130
    assert not set(safe(one)) & set('/\\:*?"<>|\0\n')


def test_beside_the_module() -> None:
    """The cassette of a test is in a folder of its module's name, beside the module."""
    expected = Path("a/cassettes/test_b/TestC.test_d[1].yaml")
    assert cassette_of(folder_of(Path("a/test_b.py"), None, Path("a")), ("TestC", "test_d[1]")) == expected


# -- answers to other requests --------------------------------------------------------------------------------


def test_the_summary_counts_them(project: Project) -> None:
    """A test that passes by a looser match is replayed, and its line says how many answers were to another request."""
    suite = """
@pytest.mark.cassette(match_on=("exact", "ordered"))
def test_it():
    assert [ask("a"), ask("{second}")] == ["a! 1", "b! 2"]
"""
    project.tests(suite.replace("{second}", "b"))
    project.record()
    project.tests(suite.replace("{second}", "c"))
    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["replayed * 2 replayed, 1 of 2 in order, to another request"])
    project.tests(suite.replace("{second}", "b"))
    project.run().stdout.no_fnmatch_line("*to another request*")
