"""Encryption and strict msgpack of LangGraph keep working, and nothing lies open beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agenttape_core.errors import UnreadableValueError
from agenttape_langgraph import TapeSaver

from .threads import bytes_of, checkpoint, counts, growing, place, put_thread

KEY, OTHER = b"0123456789abcdef", b"fedcba9876543210"
CANARIES = ["Canary" + word for word in ("Message", "Value", "Meta", "Write", "Small", "Channel")]


def encrypting(key: bytes = KEY) -> EncryptedSerializer:
    """Return LangGraph's serialiser with a key."""
    return EncryptedSerializer.from_pycryptodome_aes(key=key)


class OwnEncryption:
    """An encrypting serialiser of a user, of which we know no details."""

    def __init__(self) -> None:
        self._plain = JsonPlusSerializer()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = self._plain.dumps_typed(obj)
        mask = os.urandom(1)[0] | 1
        return f"{kind}+own", bytes([mask]) + bytes(byte ^ mask for byte in data)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        mask, rest = data[1][0], data[1][1:]
        return self._plain.loads_typed((data[0].removesuffix("+own"), bytes(byte ^ mask for byte in rest)))


class Shouting(EncryptedSerializer):
    """A subclass that overrides LangGraph's methods."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = super().dumps_typed(obj)
        return kind.upper(), data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return super().loads_typed((data[0].lower(), data[1]))


def secret_thread(saver: TapeSaver) -> None:
    """Store secrets wherever a value goes: long and short, repeated and not."""
    message, value, meta, write, small, channel = CANARIES
    values: dict[str, Any] = {
        "m": [HumanMessage(f"{message} {n} " * 60) for n in range(9)],
        "v": {"k": f"{value} " * 80},
        channel: small,
    }
    for number in (1, 2):
        config = saver.put(place(), checkpoint(number, values), {"source": "loop", "about": meta, "list": [meta]}, {})  # type: ignore[typeddict-unknown-key]
        saver.put_writes(config, [("m", f"{write} " * 90), ("n", small)], "task")


@pytest.mark.parametrize(
    "serde", [encrypting(), OwnEncryption(), Shouting(encrypting().cipher)], ids=["aes", "own", "subclass"]
)
def test_nothing_lies_open(serde: Any, path: Path) -> None:
    """With a serialiser that encrypts, no value, no metadata and no name of a channel is readable in the file."""
    with TapeSaver(path, serde=serde) as saver:
        secret_thread(saver)
        while_open = bytes_of(path)
        assert saver.get_tuple(place()) is not None
        before = list(saver.list(place(), filter={"about": CANARIES[2]}))
    for found in (while_open, bytes_of(path)):
        assert [canary for canary in CANARIES if canary.encode() in found] == []
    with TapeSaver(path, serde=serde) as again:
        assert list(again.list(place(), filter={"about": CANARIES[2]})) == before
        assert len(before) == 2


def test_without_encryption_they_would_be_found(path: Path) -> None:
    """The canaries are really looked for: the same thread, not encrypted, shows those that are not compressed away."""
    with TapeSaver(path) as saver:
        secret_thread(saver)
    assert [canary for canary in CANARIES if canary.encode() in bytes_of(path)]


def test_equal_values_are_stored_once_though_encrypted(path: Path) -> None:
    """Also in a later process, and not by a hash that anybody could try words on."""
    for _ in range(2):
        with TapeSaver(path, serde=encrypting()) as saver:
            put_thread(saver, growing(10))
    once = counts(path, "contents", "pieces", "digest_keys")
    with TapeSaver(other := path.with_name("b.sqlite"), serde=encrypting()) as saver:
        put_thread(saver, growing(10))
    assert counts(other, "contents", "pieces", "digest_keys") == once
    assert once["digest_keys"] == 1


def test_another_key_reads_nothing_and_shares_nothing(path: Path) -> None:
    """With another key, reading fails as with any saver of LangGraph, and values are not shared."""
    with TapeSaver(path, serde=encrypting()) as saver:
        put_thread(saver, growing(3))
    with TapeSaver(path, serde=encrypting(OTHER)) as saver:
        with pytest.raises(ValueError, match="MAC"):
            saver.get_tuple(place())
        put_thread(saver, growing(3), "theirs")
        assert len(list(saver.list(place("theirs")))) == 3
    with TapeSaver(path, serde=encrypting()) as saver:
        assert len(list(saver.list(place()))) == 3


def test_an_encrypted_file_says_so(path: Path) -> None:
    """Opened without the serialiser, an encrypted thread is refused with the remedy; a plain one is read with it."""
    with TapeSaver(path, serde=encrypting()) as saver:
        put_thread(saver, growing(2))
    with TapeSaver(path) as saver:
        with pytest.raises(UnreadableValueError, match=r"encrypted with aes[\s\S]*EncryptedSerializer"):
            saver.get_tuple(place())
        put_thread(saver, growing(2), "plain")
    with TapeSaver(path, serde=encrypting()) as saver:
        assert [len(found.checkpoint["channel_values"]["messages"]) for found in saver.list(place("plain"))] == [4, 2]


def test_a_copy_is_encrypted_like_what_it_copies(path: Path) -> None:
    """Around a saver that encrypts, the copy encrypts too, by default."""
    inner = InMemorySaver(serde=encrypting())
    with TapeSaver(path, inner=inner) as saver:
        saver.put(place(), checkpoint(1, {"v": CANARIES[1] * 50}), {}, {"v": 1})
        assert saver.serde is inner.serde
        assert CANARIES[1].encode() not in bytes_of(path)
        assert saver.local.get_tuple(place()).checkpoint["channel_values"] == {"v": CANARIES[1] * 50}  # type: ignore[union-attr]


@pytest.mark.process
def test_strict_msgpack_keeps_working(tmp_path: Path) -> None:
    """With LANGGRAPH_STRICT_MSGPACK the types of the graph come back as they are, and others do not."""
    strict = dedent("""
        import json, sys
        from dataclasses import dataclass
        from typing import TypedDict
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.graph import END, START, StateGraph
        from agenttape_langgraph import TapeSaver

        @dataclass
        class Known:
            it: int

        @dataclass
        class Unknown:
            it: int

        class State(TypedDict):
            known: Known
            other: object

        def node(state: State) -> State:
            return {"known": Known(state["known"].it + 1), "other": Unknown(1)}

        builder = StateGraph(State)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        builder.add_edge("node", END)
        config = {"configurable": {"thread_id": "1"}}
        found = []
        for name in ("alone", "inner"):
            saver = TapeSaver(f"{sys.argv[1]}/{name}.sqlite", inner=InMemorySaver() if name == "inner" else None)
            graph = builder.compile(checkpointer=saver)
            graph.invoke({"known": Known(1), "other": None}, config)
            values = graph.get_state(config).values
            found.append([type(values["known"]).__name__, type(values["other"]).__name__])
            local = saver.local.with_allowlist({("__main__", "Known")})
            values = local.get_tuple(config).checkpoint["channel_values"]
            found.append([type(values["known"]).__name__, type(values["other"]).__name__])
            saver.close()
        print(json.dumps(found))
    """)

    environment = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"}
    done = subprocess.run(
        [sys.executable, "-c", strict, str(tmp_path)], capture_output=True, text=True, env=environment, check=True
    )
    found = json.loads(done.stdout)
    assert [known for known, _ in found] == ["Known"] * 4
    assert [other for _, other in found if other == "Unknown"] == []


def test_an_allowlist_gives_a_clone_on_the_same_file(path: Path) -> None:
    """`with_allowlist` gives a saver with other types and the same file, alone and around another saver."""
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    for inner in (None, InMemorySaver(serde=strict)):
        file = path.with_name(f"{inner is None}.sqlite")
        with TapeSaver(file, inner=inner, serde=strict if inner is None else None) as saver:
            clone = saver.with_allowlist({("some.module", "Thing")})
            assert type(clone) is type(saver)
            assert clone is not saver
            assert clone.serde is not saver.serde
            clone.put(place(), checkpoint(1, {"v": AIMessage("hi")}), {}, {"v": 1})
            assert saver.get_tuple(place()) == clone.get_tuple(place())
            assert saver.local.get_tuple(place()) is not None
            permissive = TapeSaver(":memory:")
            assert permissive.with_allowlist({("some.module", "Thing")}) is permissive
            permissive.close()
