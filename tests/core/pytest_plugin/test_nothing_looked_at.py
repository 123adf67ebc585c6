"""A run of tests that gives a verdict on nothing has failed, and says what it looked for."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "option", ["--cassette-drift", "--cassette-candidate=openai:gpt-5-mini", "--faults=all", "--explore", "--adequacy"]
)
def test_option_without_anything_to_judge(pytester: pytest.Pytester, option: str) -> None:
    """Each option that gives a verdict fails a run in which no test has a cassette, and names itself."""
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_inprocess(option, "-p", "no:xdist")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"*{option.partition('=')[0]} * among 0 tests with a cassette*"])


def test_no_tests_at_all(pytester: pytest.Pytester) -> None:
    """A run that finds no test ends as pytest says."""
    assert pytester.runpytest_inprocess("--faults=all").ret == pytest.ExitCode.NO_TESTS_COLLECTED
