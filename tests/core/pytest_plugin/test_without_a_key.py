"""A client that is refused for want of a key: a replay says that any text will do, and not to record again."""

from __future__ import annotations

import pytest

from agenttape_core import use_cassette
from agenttape_core.lifecycle.remedy import remedy_for_key

from .conftest import Project

ADVICE = "in a replay any text will do as a key, since no call is sent: set OPENAI_API_KEY=no-key"
MISSING = (
    "Missing credentials. Please pass an `api_key`, `workload_identity`, `admin_api_key`, or set the `OPENAI_API_KEY` "
    "or `OPENAI_ADMIN_KEY` environment variable."
)
CLIENT = f"""
import os

class Client:
    def __init__(self):
        if "OPENAI_API_KEY" not in os.environ:
            raise RuntimeError("{MISSING}")
"""
SUITE = """
@pytest.mark.cassette
def test_one():
    from client import Client
    Client()
    assert ask("one") == "one! 1"

@pytest.mark.cassette
def test_two():
    from client import Client
    try:
        Client()
    except RuntimeError as error:
        raise ValueError("no agent") from error
    assert ask("two") == "two! 1"
"""


@pytest.mark.parametrize(
    ("said", "variable"),
    [
        (MISSING, "OPENAI_API_KEY"),
        ("The api_key client option must be set either by passing api_key or by GROQ_API_KEY", "GROQ_API_KEY"),
        ("Did not find mistral_api_key, please add an environment variable `MISTRAL_API_KEY`", "MISTRAL_API_KEY"),
        (
            "API key required for Gemini Developer API. Provide it or set GOOGLE_API_KEY",
            "GOOGLE_API_KEY",
        ),
        ("No API key found for OpenAI.\nPlease set either the OPENAI_API_KEY environment variable", "OPENAI_API_KEY"),
        ("Could not resolve authentication method. Expected either api_key or auth_token to be set.", "its variable"),
    ],
)
def test_the_words_of_clients(said: str, variable: str) -> None:
    """What clients say is recognised, also as the cause of another error, and the variable is the one that it names."""
    assert remedy_for_key(RuntimeError(said)) == ADVICE.replace("OPENAI_API_KEY", variable)
    outer = ValueError("no agent")
    outer.__cause__ = RuntimeError(said)
    assert remedy_for_key(outer)
    assert remedy_for_key(KeyboardInterrupt()) == remedy_for_key(ValueError("key")) == remedy_for_key(None) == ""


def test_a_block_says_so(project: Project) -> None:
    """An error for want of a key that leaves the block of a replay has the advice as a note; no other error has."""
    with use_cassette("c.yaml", mode="all") as session:
        assert session.is_replay is False
    for error, notes in ((RuntimeError(MISSING), [f"AgentTape: {ADVICE}"]), (RuntimeError("other"), [])):
        with pytest.raises(RuntimeError) as raised, use_cassette("c.yaml"):
            raise error
        assert getattr(raised.value, "__notes__", []) == notes
    with pytest.raises(RuntimeError) as raised, use_cassette("c.yaml", mode="all"):
        raise RuntimeError(MISSING)
    assert not hasattr(raised.value, "__notes__"), "what records needs a real key"


@pytest.mark.slow
def test_tests_say_so(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure has the advice, the summary counts them, and nobody is told to record again, which costs money."""
    (project.path / "client.py").write_text(CLIENT)
    (project.path / "agent.py").write_text((project.path / "agent.py").read_text().replace("len(asked)", "1"))
    project.tests(SUITE)
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    project.record()
    for name in ("CI", "BUILD_NUMBER"):  # pytest then repeats messages in its summary in full
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_API_KEY")
    result = project.run("--cassette-mode=none")
    result.assert_outcomes(failed=2)
    assert result.stdout.str().count(ADVICE) == 2
    result.stdout.fnmatch_lines(
        ["2 tests failed because a key is missing; in a replay any text will do, and no call is sent"]
    )
    result.stdout.no_fnmatch_line("*--rerecord=failed*")
    result = project.run("--cassette-mode=all")
    assert ADVICE not in result.stdout.str()
    monkeypatch.setenv("OPENAI_API_KEY", "no-key")
    project.record()
    project.run().assert_outcomes(passed=2)


def test_a_module_that_needs_a_key_says_so(project: Project) -> None:
    """Clients are often made when a module is imported: then the error of the collection has the advice."""
    (project.path / "client.py").write_text(CLIENT)
    project.tests("from client import Client\nCLIENT = Client()\n" + SUITE)
    result = project.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{ADVICE}"])
    assert ADVICE not in project.run("--cassette-mode=all").stdout.str()
