"""`agenttape review`: decide about new recordings call by call."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from click.shell_completion import BashComplete

from agenttape_core import open_cassette, use_cassette
from agenttape_core.cli.app import agenttape
from agenttape_core.cli.commands.review import walked
from agenttape_core.tools.reading.prices import NoPrices
from agenttape_core.tools.review import pending_of
from agenttape_core.tools.review.deciding import decide

from .conftest import answer, look_up

CASSETTE = Path("cassettes/trip.yaml")
WAITING = Path("cassettes/trip.pending.yaml")
ROME = f"{CASSETTE}::look_up#2"


def run(second: str, question: str = "Rain?") -> None:
    """Make three calls that know nothing of each other."""
    answer("gpt-5", question)
    look_up("Paris")
    look_up(second)


@pytest.fixture
def waiting(folder: Path) -> Path:
    """A folder with a cassette beside which a recording waits: another tool call, and another question."""
    with use_cassette(CASSETTE, mode="all"):
        run("Oslo")
    with use_cassette(CASSETTE, mode="all", review=True):
        run("Rome", "Snow?")
    return folder


def cities() -> list[str]:
    """Return the cities that the cassette holds."""
    return [item.request["arguments"]["city"] for item in open_cassette(CASSETTE).interactions() if item.kind == "tool"]


@pytest.mark.parametrize("words", ["list", "list --json", "accept --all", f"accept {ROME}", "accept look_up#2"])
def test_a_file_that_is_damaged(waiting: Path, command: Any, words: str) -> None:
    """A waiting file that can't be read is named, and keeps none of the others from being listed or decided."""
    Path("cassettes/bad.pending.yaml").write_text("agenttape: 2\n---\n: broken\n", "utf-8")
    ended = command("review", *words.split())
    is_read = "look_up#2" in ended.out or cities() == ["Paris", "Rome"]
    assert is_read
    if ROME in words or words == "accept look_up#2":  # which ask for another file
        assert (ended.code, ended.err) == (0, "")
    else:
        assert ended.code == 3
        assert "bad.pending.yaml" in ended.err
    assert Path("cassettes/bad.pending.yaml").exists()


def test_pending(waiting: Path, command: Any) -> None:
    """The list names each changed call by its key, the worst sort of change first said."""
    ended = command("review", "list")
    assert ended.code == 0
    assert ended.out.splitlines()[:3] == [
        "cassettes/trip.yaml: another path, 2 calls",
        "  changed  other words              cassettes/trip.yaml::answer",
        "  changed  another path             cassettes/trip.yaml::look_up#2",
    ]
    (found,) = command("review", "list", "--json").json["pending"]
    assert (found["path"], found["pending"], found["change"]) == (str(CASSETTE), str(WAITING), "path")
    assert [(call["key"], call["with"]) for call in found["calls"]] == [(f"{CASSETTE}::answer", []), (ROME, [])]
    assert found["calls"][1]["differences"][0] == {
        "path": "request.arguments.city",
        "before": "[-Oslo-]",
        "now": "{+Rome+}",
    }


@pytest.mark.usefixtures("waiting")
def test_keys_are_completed() -> None:
    """After `accept` and `reject`, the shell completes the keys of the calls that wait, and each key once."""
    key = "cassettes/trip.yaml::answer"
    shell = BashComplete(agenttape, {}, "agenttape", "_AGENTTAPE_COMPLETE")
    for action in ("accept", "reject"):
        items = shell.get_completions(["review", action], "")
        assert [item.value for item in items if item.type == "plain"] == [key, "cassettes/trip.yaml::look_up#2"]
    once = BashComplete(agenttape, {}, "agenttape", "_AGENTTAPE_COMPLETE").get_completions(
        ["review", "accept", key], ""
    )
    assert [item.value for item in once if item.type == "plain"] == ["cassettes/trip.yaml::look_up#2"]


@pytest.mark.parametrize("key", [ROME, "look_up#2", f"./{CASSETTE}::look_up#2"])
def test_accept_one(waiting: Path, command: Any, key: str) -> None:
    """A call is accepted by its key, or by its address alone; the one that the program asks for besides is named."""
    ended = command("review", "accept", key)
    assert (ended.code, cities(), WAITING.exists()) == (0, ["Paris", "Rome"], True)
    assert ended.out.splitlines() == [
        "cassettes/trip.yaml: 1 call accepted, 1 still pending",
        "  to replay with the program that recorded it, accept too: cassettes/trip.yaml::answer",
    ]


@pytest.mark.parametrize("words", [("--all",), ("cassettes",), (str(CASSETTE),), (str(WAITING),)])
def test_accept_all(waiting: Path, command: Any, words: tuple[str, ...]) -> None:
    """All that waits is accepted at once, everywhere or of a folder or a cassette."""
    decided = command("review", "accept", *words, "--json").json
    assert (decided["left"], cities(), WAITING.exists()) == (0, ["Paris", "Rome"], False)


def test_reject(waiting: Path, command: Any) -> None:
    """What is rejected does not wait any more, and the cassette is as it was; where nothing waits, that is said."""
    assert command("review", "reject", ROME).code == 0
    assert [call["name"] for call in command("review", "list", "--json").json["pending"][0]["calls"]] == ["answer"]
    assert command("review", "reject", "--all").code == 0
    assert (cities(), WAITING.exists()) == (["Paris", "Oslo"], False)
    assert command("review", "list").out == "nothing waits for review\n"
    assert command("review", "accept", "--all").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "agenttape review accept KEY"),  # without a terminal
        (("accept",), "name the keys"),
        (("accept", "--all", ROME), "name the keys"),
        (("accept", "cassettes/trip.yaml::look_up#3"), "did you mean: cassettes/trip.yaml::look_up#2"),
        (("accept", "cassettes/weather.yaml"), "nothing waits for review in cassettes/weather.yaml"),
    ],
)
def test_keys_that_mean_nothing(waiting: Path, command: Any, words: tuple[str, ...], said: str) -> None:
    """A key that means nothing is refused with one that was most likely meant, and nothing is changed."""
    ended = command("review", *words)
    assert ended.code == 2
    assert said in ended.err
    assert WAITING.exists()


def test_other_verbs_leave_it_out(waiting: Path, command: Any) -> None:
    """Commands that look through a folder see no recording that waits; named, it is shown as any other."""
    assert "pending" not in command("check", "--only", "files").out + command("ls").out + command("show", "--stats").out
    assert command("show", str(WAITING)).code == 0
    assert command("cassette", "prune", "cassettes").out.count("pending") == 0


@pytest.mark.parametrize(
    ("keys", "accepted", "rejected"),
    [
        ("ar", [ROME], [f"{CASSETTE}::answer"]),
        ("xsa", [f"{CASSETTE}::answer"], []),
        ("A", [f"{CASSETTE}::answer", ROME], []),
        ("rA", [f"{CASSETTE}::answer"], [ROME]),
        ("R", [], [f"{CASSETTE}::answer", ROME]),
        ("aq", [ROME], []),
    ],
)
def test_a_walk(
    waiting: Path, capsys: pytest.CaptureFixture[str], keys: str, accepted: list[str], rejected: list[str]
) -> None:
    """The walk shows another path before other words, and nothing is written before it has ended."""

    def scripted(keys: str) -> Callable[[], str]:
        """Return a reader of keys that are pressed one after another."""
        pressed = iter(keys)
        return lambda: next(pressed)

    before = CASSETTE.read_bytes()
    ((pending, taken, dropped),) = walked([pending_of(CASSETTE)], NoPrices(), scripted(keys))
    out = capsys.readouterr().out
    assert (taken, dropped, CASSETTE.read_bytes()) == (accepted, rejected, before)
    assert '- look_up(city="Oslo")' in out
    assert out.index("1 of 2  changed: another path") < out.index("request.arguments.city")
    decided = decide(pending, taken, dropped)
    assert (decided.accepted, decided.rejected) == (tuple(accepted), tuple(rejected))


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("keys", "code", "kept"), [("ar", 0, ["Paris", "Rome"]), ("a\x03", 130, ["Paris", "Oslo"])])
def test_in_a_terminal(waiting: Path, interruptible: None, keys: str, code: int, kept: list[str]) -> None:
    """In a terminal each key is a decision; after Ctrl-C everything is as it was."""
    files = {path.name: path.read_bytes() for path in CASSETTE.parent.iterdir()}
    ended, out = in_terminal(keys)
    assert (ended, cities()) == (code, kept), out
    if code:
        assert {path.name: path.read_bytes() for path in CASSETTE.parent.iterdir()} == files


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_keys_of_several_characters(waiting: Path) -> None:
    """Arrows, function keys and letters with Alt decide nothing, whatever letters they send."""
    arrow, f3, with_control, with_alt = "\x1b[A", "\x1bOR", "\x1b[1;5R", "\x1br"
    ended, out = in_terminal([f"{arrow}{f3}{with_control}{with_alt}a", "r"])
    assert (ended, cities()) == (0, ["Paris", "Rome"]), out


def in_terminal(keys: Sequence[str], most_seconds: float = 60) -> tuple[int, str]:
    """Run the command in a pseudo-terminal, press a key whenever it waits, and return its exit code and output."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from agenttape_core.cli import main; main()", "review"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        out, left = "", list(keys)
        for piece in until_closed(ours, monotonic() + most_seconds):
            out += piece
            if left and out.count("[q]uit: ") > len(keys) - len(left):
                os.write(ours, left.pop(0).encode())
        return process.wait(most_seconds), out
    finally:
        process.kill()
        process.wait(most_seconds)
        os.close(ours)


def until_closed(terminal: int, end: float) -> Iterator[str]:
    """Yield what is written to a terminal until it is closed, or a time has come."""
    while select.select([terminal], [], [], max(end - monotonic(), 0))[0]:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux says so where others say that nothing was read
            return
        if not piece:
            return
        yield piece.decode(errors="replace")
    raise TimeoutError("the command has not ended")
