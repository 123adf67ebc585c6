"""What the fixtures of a replayed test ask for when they end is refused, and is no reason to leave others undone."""

from __future__ import annotations

from textwrap import dedent

import pytest

from .conftest import Project

pytestmark = pytest.mark.process


def test_the_teardown_of_a_replayed_test(project: Project) -> None:
    """A fixture's teardown calls nothing for real; its own session, wider fixtures and other tests do as they like."""
    tests = dedent("""
        import socket
        from agenttape_core import use_cassette

        @pytest.fixture(scope="module")
        def wide():
            yield
            print("wide:", ask("wide"))

        @pytest.fixture
        def first():
            yield
            print("first ended")

        @pytest.fixture
        def late(first):
            yield
            ask("late")

        @pytest.fixture
        def eats(first):
            yield
            try:
                ask("late")
            except Exception:
                print("eaten")

        @pytest.fixture
        def connects():
            with socket.create_server(("127.0.0.1", 0)) as server:
                yield
                socket.create_connection(server.getsockname()).close()

        @pytest.fixture
        def apart():
            yield
            with use_cassette("apart"):
                print("apart:", ask("apart"))

        class TestMarked:
            pytestmark = pytest.mark.cassette("same")

            def test_late(self, wide, late):
                ask("hi")

            def test_eats(self, eats):
                ask("hi")

            def test_connects(self, connects):
                ask("hi")

            @pytest.mark.cassette("same", allow_hosts={"loopback"})
            def test_allowed(self, connects):
                ask("hi")

            def test_apart(self, apart):
                ask("hi")

        class TestXunit:
            def teardown_method(self):
                ask("late")

            @pytest.mark.cassette("same")
            def test_xunit(self):
                ask("hi")

        def test_plain(late):
            pass
    """)

    project.tests(tests)
    project.record("-k", "test_late")
    project.record("-k", "test_apart")
    result = project.run("-rP", "--cassette-mode=none")
    result.assert_outcomes(passed=7, errors=4)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of TestMarked.test_late*",
            "CassetteMissError: call ask was called after the replay of cassettes/same.yaml had ended",
            "  called at *test_it.py:* in late",
            "  the teardown of a fixture isn't part of the session of its test: *",
            "  session of its own: with use_cassette(...)",
            "*ERROR at teardown of TestMarked.test_eats*",
            "*ERROR at teardown of TestMarked.test_connects*",
            "NetworkBlockedError: *tried to connect to 127.0.0.1:*",
            "*or allow it: allow_hosts={'loopback'}",
            "*ERROR at teardown of TestXunit.test_xunit*",
        ]
    )
    printed = result.stdout.str()
    assert printed.count("first ended") == 3
    assert "apart: apart! " in printed
    assert "wide: wide! " in printed
    assert "eaten" not in printed


def test_the_session_of_a_fixture(project: Project) -> None:
    """A miss in the session of a fixture fails the test, or its teardown if nothing else tells; all others end."""
    sessions = dedent("""
        from agenttape_core import use_cassette

        @pytest.fixture
        def own():
            with use_cassette("own"):
                yield

        @pytest.fixture
        def other():
            yield
            print("other ended")

        def test_fails(other, own):
            ask("hi")

        def test_hides(other, own):
            with pytest.raises(BaseException, match="ask was called"):
                ask("hi")

        def test_passes(other):
            pass
    """)

    project.tests(sessions)
    project.record("-k", "test_fails")
    project.tests(sessions.replace('ask("hi")', 'ask("ho")'))
    result = project.run("-rP")
    result.assert_outcomes(failed=1, passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*ERROR at teardown of test_hides*", "CassetteMissError: ask was called with a request*", "other ended"]
    )
    assert result.stdout.str().count("other ended") == 3
