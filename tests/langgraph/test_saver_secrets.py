"""Secrets in the file of a saver: replaced where the user asks for it, and told in a copy of a production saver."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, StateGraph

from agenttape_core.cli.app import run as cli
from agenttape_langgraph import TapeSaver

KEY = "sk-" + "proj-" + "a1B2c3D4" * 5
THREAD: Any = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    """The state of a thread with an address, a password and a number under a denied name."""

    mail: str
    password: str
    passcode: int


def fill(_: State) -> State:
    """Return what no file should have."""
    return {"mail": f"ann.lee@acme-mail.com with {KEY}", "password": "hunter2-plain", "passcode": 471147}


def run(saver: Any) -> Any:
    """Run a graph of one node, and return the state that the saver has."""
    graph = StateGraph(State).add_node("fill", fill).add_edge(START, "fill").add_edge("fill", END).compile(saver)
    graph.invoke({"mail": KEY, "password": "hunter2-plain", "passcode": 1}, THREAD)
    return graph.get_state(THREAD).values


def test_redacted_file(tmp_path: Path) -> None:
    """With `redact`, the file has pseudonyms of the types of the values, and the production saver has the values."""
    production = InMemorySaver()
    with TapeSaver(tmp_path / "copy.sqlite", inner=production, redact=True) as saver:
        assert run(saver)["password"] == "hunter2-plain"
    with TapeSaver(tmp_path / "copy.sqlite", read_only=True) as copy:
        values = copy.get_tuple(THREAD).checkpoint["channel_values"]
        text = str(list(copy.list(THREAD)))
    assert KEY not in text
    assert "hunter2" not in text
    assert "acme-mail" not in text
    assert isinstance(values["passcode"], int)
    assert values["passcode"] != 471147
    assert "@example.com" in values["mail"]


def test_copy_of_secrets_warns_once(tmp_path: Path) -> None:
    """A copy that holds secrets says so once; one that is meant to, and a saver of its own, say nothing."""
    with TapeSaver(tmp_path / "copy.sqlite", inner=InMemorySaver()) as saver:
        with pytest.warns(UserWarning, match="copied as they are") as told:
            run(saver)
        assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with TapeSaver(tmp_path / "meant.sqlite", inner=InMemorySaver(), redact=False) as saver:
            assert run(saver)["password"] == "hunter2-plain"
        with TapeSaver(tmp_path / "own.sqlite") as saver:
            assert run(saver)["password"] == "hunter2-plain"


def scanned(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Scan paths, and return the exit code with all that is printed."""
    code = cli(["check", "--only", "secrets", *words])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize("words", [[], ["runs"], ["runs/thread.sqlite"], ["runs", "--json"]], ids=" ".join)
def test_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """`scan` finds what is secret in the file of a saver, each place once, and tells where but not what."""
    monkeypatch.chdir(tmp_path)
    with TapeSaver("runs/thread.sqlite", redact=False) as saver:
        run(saver)
    code, printed = scanned(*words, capsys=capsys)
    assert code == 1
    for kind, place in [("openai", "mail"), ("email", "mail"), ("secret", "password"), ("number", "passcode")]:
        assert kind in printed
        assert printed.count(f"channel_values.{place}") == (2 if place == "mail" else 1)
    assert not [secret for secret in (KEY, "hunter2", "acme-mail", "471147") if secret in printed]


def test_scan_of_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No object of a class that a file names is made; what it would be made of is looked into, and so is the thread."""

    @dataclass
    class Account:
        """A value of a class of the program's own."""

        password: str

    monkeypatch.chdir(tmp_path)
    with TapeSaver("thread.sqlite") as saver:
        graph = StateGraph(State).add_node("fill", lambda _: {"mail": Account("hunter2-plain")})  # type: ignore[arg-type]
        thread: Any = {"configurable": {"thread_id": "ann.lee@acme-mail.com"}}
        graph.add_edge(START, "fill").add_edge("fill", END).compile(saver).invoke({"mail": ""}, thread)
    monkeypatch.setattr(Account, "__init__", lambda *_, **__: pytest.fail("an object was made"))
    code, printed = scanned(capsys=capsys)
    assert code == 1
    assert "secret at channel_values.mail.password" in printed
    assert "email at thread_id" in printed
    assert "acme-mail" not in printed
    assert "allowed_msgpack_modules" not in printed


def test_scan_of_redacted_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is found in a file that has pseudonyms; a file of another program is none of its business."""
    monkeypatch.chdir(tmp_path)
    with TapeSaver("thread.sqlite", redact=True) as saver:
        run(saver)
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0" + bytes(100) + KEY.encode())
    assert scanned(capsys=capsys) == (0, "1 run, 1 check: all passed\n")


def test_scan_of_what_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged file is told with its name, and so is an encrypted one; the command ends with 3."""
    monkeypatch.chdir(tmp_path)
    with TapeSaver("sealed.sqlite", serde=EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16)) as saver:
        run(saver)
    whole = (tmp_path / "sealed.sqlite").read_bytes()
    (tmp_path / "damaged.sqlite").write_bytes(whole[:3000])
    code, printed = scanned("sealed.sqlite", "damaged.sqlite", capsys=capsys)
    assert code == 3
    assert "sealed.sqlite" in printed
    assert "encrypted with aes" in printed
    assert "damaged.sqlite" in printed
