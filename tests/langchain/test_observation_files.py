"""The file of an observation: what a crash leaves, who may write it, and what threads share."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

from agenttape_core import open_cassette, recover, use_cassette
from agenttape_core.errors import CassetteLockedError
from agenttape_langchain import TapeCallbackHandler

from .fakes import PlainChat, World

LONG = "word " * 20_000


def program(*arguments: str) -> str:
    """Run a program that must succeed; what it printed."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def observe(handler: TapeCallbackHandler, world: World, text: str) -> str:
    """Observe a run of one call."""
    return str(PlainChat(world=world).invoke(text, {"callbacks": [handler]}).text)


def ask(world: World, text: str) -> str:
    """Call a model inside a run."""
    return str(PlainChat(world=world).invoke(text).text)


def asked(path: Path | str) -> list[str]:
    """The requests of the models in a cassette, shortened."""
    return [i.request["messages"][-1]["content"][:8] for i in open_cassette(path).interactions()]


def journals(folder: Path) -> list[Path]:
    """The journals in a folder."""
    return sorted(folder.glob(".*.journal"))


# -- crashes and ends ----------------------------------------------------------------------------------------------

MANY = """
    import os, signal, sys
    sys.path.insert(0, sys.argv[2])
    from langchain_core.runnables import RunnableLambda
    from agenttape_langchain import TapeCallbackHandler
    from tests.langchain.fakes import PlainChat, World
    handler, model = TapeCallbackHandler(sys.argv[1]), PlainChat(world=World())
    model.invoke("word " * 20_000, {"callbacks": [handler]})
    for number in range(3):
        model.invoke(f"run {number}", {"callbacks": [handler]})
    END
"""
HALFWAY = """RunnableLambda(lambda x: [model.invoke(x), os.kill(os.getpid(), signal.SIGKILL)]).invoke(
        "halfway", {"callbacks": [handler]}
    )"""


@pytest.mark.process
def test_a_killed_process_loses_nothing_that_has_ended(tmp_path: Path) -> None:
    """The cassette and what is recovered of the journal together hold every call that had ended, each once."""
    path = tmp_path / "many.yaml"
    code = textwrap.dedent(MANY).replace("END", HALFWAY)
    done = subprocess.run([sys.executable, "-c", code, str(path), str(Path(__file__).parents[2])], check=False)
    assert done.returncode == -9
    (journal,) = journals(tmp_path)
    assert asked(path) == ["word wor"]
    assert asked(recover(journal)) == ["run 0", "run 1", "run 2", "halfway"]


@pytest.mark.process
def test_the_end_of_a_program_writes_the_file(tmp_path: Path) -> None:
    """At the exit everything is in the cassette and nothing beside it."""
    path = tmp_path / "many.yaml"
    program("-c", textwrap.dedent(MANY).replace("END", ""), str(path), str(Path(__file__).parents[2]))
    assert asked(path) == ["word wor", "run 0", "run 1", "run 2"]
    assert [file.name for file in tmp_path.iterdir()] == ["many.yaml"]


def test_flush_while_a_run_is_open(world: World, tmp_path: Path) -> None:
    """A flush during a run writes when the run has ended, and not in the middle of its calls."""
    handler = TapeCallbackHandler(tmp_path / "seen.jsonl")
    observe(handler, world, LONG)

    def flushing(text: str) -> str:
        answer = ask(world, text)
        handler.flush()
        return answer

    RunnableLambda(flushing).invoke("inner", {"callbacks": [handler]})
    assert asked(handler.path) == [LONG[:8], "inner"]
    assert handler.errors == []


def test_close_cuts_open_runs_off(world: World, tmp_path: Path) -> None:
    """A run that is open when the handler is closed is in the file as open; a later one is an error that is kept."""
    handler = TapeCallbackHandler(tmp_path / "seen.yaml")

    def closing(text: str) -> str:
        answer = ask(world, text)
        handler.close()
        return answer

    assert RunnableLambda(closing).invoke("Hi", {"callbacks": [handler]}) == "answer 1 to Hi"
    cassette = open_cassette(handler.path)
    assert [(s.name, s.status) for s in cassette.steps() if s.kind != "gap"] == [("closing", "open")]
    assert len(cassette.entries) == 1
    assert handler.errors == []
    assert observe(handler, world, "again") == "answer 2 to again"
    assert [type(error).__name__ for error in handler.errors] == ["SessionStateError"]


# -- who writes ----------------------------------------------------------------------------------------------------


def test_a_second_handler_is_refused_while_one_records(world: World, tmp_path: Path) -> None:
    """While a run is recorded, another handler for the file cannot even be made; afterwards it takes the file over."""
    handler = TapeCallbackHandler(tmp_path / "seen.yaml")
    refused: list[Exception] = []

    def second(text: str) -> str:
        answer = ask(world, text)
        try:
            TapeCallbackHandler(tmp_path / "seen.yaml")
        except CassetteLockedError as error:
            refused.append(error)
        return answer

    RunnableLambda(second).invoke("Hi", {"callbacks": [handler]})
    assert len(refused) == 1
    other = TapeCallbackHandler(tmp_path / "seen.yaml")
    observe(other, world, "other")
    observe(handler, world, "late")
    assert asked(tmp_path / "seen.yaml") == ["other"]
    (error,) = handler.errors
    assert isinstance(error, CassetteLockedError)
    assert asked(recover(*journals(tmp_path))) == ["late"]


def test_many_threads_and_one_handler(world: World, tmp_path: Path) -> None:
    """Runs of many threads are all in the file, each whole: its steps around its calls, nothing mixed or lost."""
    handler = TapeCallbackHandler(tmp_path / "seen.jsonl")
    start = threading.Barrier(8)

    def work(number: int) -> list[str]:
        chain = RunnableLambda(lambda text: ask(world, text))
        start.wait()
        return [chain.invoke(f"{number}.{turn}", {"callbacks": [handler]}) for turn in range(12)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    handler.close()
    assert handler.errors == []
    assert sorted(asked(handler.path)) == sorted(f"{n}.{turn}" for n in range(8) for turn in range(12))
    kinds = [record.kind for record in open_cassette(handler.path).records()]
    assert kinds == ["gap"] + ["chain", "chat"] * 96


def test_a_forgotten_handler_leaves_nothing_behind(world: World, tmp_path: Path) -> None:
    """A handler that is used once and dropped needs no `close`, and neither lock nor journal stays."""

    def once(text: str) -> Any:
        return PlainChat(world=world).invoke(text, {"callbacks": [TapeCallbackHandler(tmp_path / "seen.yaml")]})

    once("Hi")
    assert [file.name for file in tmp_path.iterdir()] == ["seen.yaml"]
    gc.collect()
    world.gone = True
    with use_cassette(tmp_path / "seen.yaml"):
        PlainChat(world=world).invoke("Hi")
