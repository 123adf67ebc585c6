"""A run of tests that gives a verdict on nothing has failed, and says what it looked for."""

from __future__ import annotations

import pytest

from agenttape_core.pytest_plugin.command_line import EXPERIMENTS, add_options

JUDGING = {
    "--cassette-lab=live": "",
    "--cassette-lab=model": ":openai:gpt-5-mini",
    "--cassette-lab=faults": "",
    "--cassette-lab=orders": "",
    "--cassette-lab=mutants": "",
    "--cassette-lab=flaky": "",
    "--cassette-lab=why": "",
    "--cassette-lab=change": ":base=main",
    "--cassette-dry-run": "",
}
"""The options that give a verdict on cassettes, each with a value."""

OF_FAILURES = ("shrink", "bisect")
"""The experiments that look only at tests that fail: a run in which none does needs neither."""

NOT_JUDGING = {
    **dict.fromkeys(
        ("--cassette-max-age", "--cassette-strict"),
        "a rule for what is there: projects put it into addopts, which hold for tests without a cassette, too",
    ),
    **dict.fromkeys(
        ("--cassette-mode", "--rerecord", "--cassette-review", "--cassette-pace", "--cassette-order"),
        "it chooses how tests run, and they give the verdict",
    ),
    **dict.fromkeys(
        ("--cassette-max-usd", "--cassette-samples", "--cassette-fail-under"),
        "it is a part of an option that judges",
    ),
    "--cassette-resume": "likewise",
    **dict.fromkeys(("--cassette-artifacts", "--cassette-report"), "it writes a file"),
}
"""The other options, each with the reason why a run without a cassette may pass with it."""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load no other plugins, which take longer than the runs."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "agenttape_core.pytest_plugin")


def test_each_option_is_listed() -> None:
    """A new option says here what it does where there is nothing to judge."""
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    names = [name for group in parser._groups for option in group.options for name in option.names()]
    assert sorted(names) == sorted([*{name.partition("=")[0] for name in JUDGING}, *NOT_JUDGING])


def test_each_experiment_is_listed() -> None:
    """A new experiment says here what it needs."""
    named = [name.partition("=")[2] for name in JUDGING if name.startswith("--cassette-lab=")]
    assert named == [*dict.fromkeys(named)]
    assert {*named, *OF_FAILURES} == set(EXPERIMENTS)


@pytest.mark.parametrize("option", [name + value for name, value in JUDGING.items()])
def test_option_without_anything_to_judge(pytester: pytest.Pytester, option: str) -> None:
    """Each option that gives a verdict fails a run in which no test has a cassette, and names itself."""
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_inprocess(option)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"*{option.partition(':')[0].removesuffix('=plan')}* among 0 tests with a cassette*"])


def test_no_tests_at_all(pytester: pytest.Pytester) -> None:
    """A run that finds no test ends as pytest says."""
    assert pytester.runpytest_inprocess("--cassette-lab=faults").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_cassettes_without_calls(pytester: pytest.Pytester) -> None:
    """A test whose cassette holds no call verifies nothing, though it passes for real."""
    pytester.makepyfile("import pytest\n@pytest.mark.cassette\ndef test_idle(): pass")
    pytester.runpytest_inprocess("--cassette-mode=once").assert_outcomes(passed=1)
    result = pytester.runpytest_inprocess("--cassette-lab=live")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*--cassette-lab=live verified no cassette among 1 test with a cassette*"])
