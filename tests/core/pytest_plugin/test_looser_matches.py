"""The summary says which calls got the answer to another request."""

from __future__ import annotations

from .conftest import Project


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
