"""`--cassette-pace`: the time that the replays of a run of pytest take."""

from __future__ import annotations

from textwrap import dedent

from .conftest import Project


def test_it_reaches_marked_tests_and_sessions_of_their_own(project: Project) -> None:
    """Replays take the time of the recording, also those of sessions that a test opens by itself."""
    suite = dedent("""
        import asyncio
        from agenttape_core import boundary, use_cassette

        @boundary("chat")
        async def ask(question):
            await asyncio.sleep(0.05)
            return question

        async def timed():
            loop = asyncio.get_running_loop()
            began = loop.time()
            await ask("a")
            return loop.time() - began

        @pytest.mark.cassette(mode="once")
        def test_marked():
            assert asyncio.run(timed()) >= 0.03

        def test_own():
            with use_cassette("own.yaml", mode="once"):
                assert asyncio.run(timed()) >= 0.03
    """)

    project.tests(suite)
    run = ("-q",)
    project.run(*run).assert_outcomes(passed=2)
    project.run(*run, "--cassette-pace=virtual").assert_outcomes(passed=2)


def test_an_unknown_pace_is_refused(project: Project) -> None:
    """Before a test runs."""
    ended = project.run("--cassette-pace=fast")
    ended.stderr.fnmatch_lines(["*--cassette-pace: pace='fast': expected 'none', 'recorded', or a number*"])
