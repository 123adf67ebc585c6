"""What became of the cassettes is told once, in words and in JUnit's properties."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import ConfigurationError
from agenttape_core.pytest_plugin.naming import cassette_of, safe
from agenttape_core.schema import Usage
from agenttape_core.tools.reading.prices import load_prices

from .conftest import Project

PAID = """
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

class Model(GenericFakeChatModel):
    model: str

    @property
    def _identifying_params(self):
        return {"model": self.model}

@pytest.mark.cassette
@pytest.mark.parametrize("model", ["gpt-5-2025-08-07", "nobody-knows"])
def test_it(model, cassette):
    usage = {"input_tokens": 1000, "output_tokens": 200, "total_tokens": 1200}
    Model(model=model, messages=iter([AIMessage("Hello", usage_metadata=usage)])).invoke("hi")
    cassette.assert_final_output("Hello")
"""


def test_money(project: Project) -> None:
    """What served calls of models with a known price cost when recorded is what was saved; others are counted."""
    project.tests(PAID)
    run = project.pytester.runpytest_subprocess  # a process of its own loads the integration anew
    run("--cassette-mode=once").assert_outcomes(passed=2)
    result = run()
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["2 calls served, 0 executed; saved 0.0 s and about $0.0032 (1 call of models *"])


def test_many(project: Project) -> None:
    """Of many tests, those that were served as they should be are counted, and listed with -v."""
    project.tests("""
@pytest.mark.cassette
@pytest.mark.parametrize("n", range(25))
def test_it(n):
    assert ask(n)
""")
    project.record()
    path = project.path / "cassettes" / "test_it" / "test_it[7].yaml"
    path.unlink()
    result = project.run("--cassette-mode=once")
    result.stdout.fnmatch_lines(
        ["recorded  cassettes/test_it/test_it[[]7].yaml*", "served    24 tests, all that they asked"]
    )
    result.stdout.no_fnmatch_line("*[[]8].yaml*")
    project.run("-v").stdout.fnmatch_lines(["served    cassettes/test_it/test_it[[]8].yaml*"])


def test_junit(project: Project) -> None:
    """JUnit's file has the numbers of each test as properties."""
    project.tests("@pytest.mark.cassette\ndef test_it():\n    assert ask('hi')\n")
    project.record()
    project.run("--junitxml=junit.xml")
    text = (project.path / "junit.xml").read_text()
    assert '<property name="cassette.path" value="cassettes/test_it/test_it.yaml"' in text
    assert '<property name="cassette.word" value="served"' in text
    assert '<property name="cassette.served" value="1"' in text


BEFORE = """
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
"""


def test_what_fails_before_the_test(project: Project) -> None:
    """A cassette that could not be opened, and one that a fixture asked in vain, have a line and properties too."""
    project.tests(f"WARM = False\n{BEFORE}")
    project.run("--cassette-mode=once", "-k", "test_warm").assert_outcomes(passed=1)
    project.tests(f"WARM = True\n{BEFORE}")
    result = project.run("--junitxml=junit.xml", "-k", "not test_skipped or test_skipped_before")
    result.assert_outcomes(errors=3, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "missing   cassettes/test_it/test_missing.yaml  nothing asked",
            "refused   cassettes/test_it/test_mistaken.yaml  nothing asked",
            "missed    cassettes/warm.yaml  1 missed, 1 unused",
            "0 calls served, 0 executed",
        ],
        consecutive=True,
    )
    text = (project.path / "junit.xml").read_text()
    assert [text.count(f'name="cassette.word" value="{word}"') for word in ("missing", "refused", "missed")] == [1] * 3


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_two_names_are_one_file(one: str, other: str) -> None:
    """Different tests have different files, whatever their parameters are, and each may be the name of a file."""
    assert (safe(one) == safe(other)) == (one == other)
    assert len(safe(one)) <= 130
    assert not set(safe(one)) & set('/\\:*?"<>|\0\n')


def test_beside_the_module() -> None:
    """The cassette of a test is in a folder of its module's name, beside the module."""
    expected = Path("a/cassettes/test_b/TestC.test_d[1].yaml")
    assert cassette_of(Path("a/test_b.py"), ("TestC", "test_d[1]")) == expected


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("gpt-5", 1.25),
        ("gpt-5-2025-08-07", 1.25),
        ("openai/gpt-5-mini", 0.25),
        ("claude-sonnet-4-20250514", 3.0),
        ("gpt-4-0613", 30.0),
        ("claude-3-5-sonnet-latest", 3.0),
    ],
)
def test_prices(model: str, cost: float) -> None:
    """A dated snapshot costs what its model costs, and a smaller model does not cost what its bigger sister does."""
    price = load_prices().of(model)
    assert price is not None
    assert price.of(Usage(input_tokens=1_000_000, output_tokens=0)) == cost


@pytest.mark.parametrize("model", ["gpt-5-turbo-max", "llama3", "", None])
def test_unknown_models(model: str | None) -> None:
    """A model that the table does not name has no price, rather than none to pay."""
    assert load_prices().of(model) is None


def test_own_prices(tmp_path: Path) -> None:
    """A project's own table takes the place of the built-in one."""
    path = tmp_path / "prices.json"
    path.write_text('{"llama3": {"input": 0, "output": 2}}')
    price = load_prices(path).of("llama3")
    assert price is not None
    assert price.of(Usage(input_tokens=5, output_tokens=1_000_000)) == 2.0
    assert load_prices(path).of("gpt-5") is None


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a": 1}', '{"a": {"in": 1}}', '{"a": {"input": "1"}}', '{"a": {"input": -1}}']
)
def test_broken_prices(tmp_path: Path, text: str) -> None:
    """A file that is no table of prices is refused with its name and an example."""
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"prices\.json: no table of prices"):
        load_prices(path)
