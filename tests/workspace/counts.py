"""Count the calls of our own functions on a dozen paths: the same figures on every machine.

Each path runs three times in its own process, and the third run is counted. Nothing that differs between machines gets
in: the hash seed is fixed, the garbage collector is off, and the framework's own frames aren't counted. Print the
figures as JSON, by path:

    PYTHONHASHSEED=0 python tests/workspace/counts.py
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = str(ROOT / "packages") + os.sep
_INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Functions that Python 3.12 no longer makes: they say nothing about the code."""
_TIMES = 3
_CHUNKS, _MESSAGES = 100, 50

Figures = dict[str, int]
"""`calls` of functions, `entered` modules, and `changes` from one module to another."""


class Counting:
    """Counts the calls of our functions in this thread, while inside."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self._known: dict[CodeType, str | None] = {}

    def __enter__(self) -> None:
        gc.collect()
        sys.setprofile(self._called)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in self._known:
            is_ours = code.co_filename.startswith(_SOURCES) and code.co_name not in _INLINED
            self._known[code] = code.co_filename.removeprefix(_SOURCES) if is_ours else None
        if (module := self._known[code]) is not None:
            self.entered.append(module)

    def figures(self) -> Figures:
        """Return what was counted."""
        changes = sum(one != other for one, other in zip(self.entered, self.entered[1:], strict=False))
        return {"calls": len(self.entered), "entered": len(set(self.entered)), "changes": changes}


def third(act: Callable[[], object]) -> Figures:
    """Count the third run of a function."""
    for _ in range(_TIMES - 1):
        act()
    with (counting := Counting()):
        act()
    return counting.figures()


def third_awaited(act: Callable[[], Awaitable[object]]) -> Figures:
    """Count the third run of a coroutine function, in one event loop."""

    async def run() -> Figures:
        for _ in range(_TIMES - 1):
            await act()
        with (counting := Counting()):
            await act()
        return counting.figures()

    return asyncio.run(run())


# -- the programs ------------------------------------------------------------------------------------------------


def fake(answer: str = "The weather is fine today.") -> Any:
    """Return a model that always answers the same."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    def forever() -> Iterator[Any]:
        while True:
            yield AIMessage(answer)

    return GenericFakeChatModel(messages=forever())


def streaming() -> Any:
    """Return a model that streams as many chunks as are counted."""
    words = [str(number) for number in range(_CHUNKS // 2)]
    return fake(" ".join(words) + "\n")  # the fake streams words and the spaces between them


def chat(messages: int = 1) -> Any:
    """Return the messages that a model is called with."""
    from langchain_core.messages import AIMessage, HumanMessage

    kinds = (HumanMessage, AIMessage)
    return [kinds[number % 2](f"{number} What is the weather in Paris?") for number in range(messages)]


def weather() -> Any:
    """Return a tool."""
    from langchain_core.tools import tool

    @tool
    def get_weather(city: str) -> str:
        """Return the weather in a city."""
        return f"It is sunny in {city}."

    return get_weather


_CALLED = {"city": "Paris"}
_MARKED = """
import pytest

from counts import chat, fake


@pytest.mark.cassette
def test_first():
    assert "fine" in fake().invoke(chat()).content


@pytest.mark.cassette
def test_second():
    assert "fine" in fake().invoke(chat()).content


@pytest.mark.cassette
def test_third():
    assert "fine" in fake().invoke(chat()).content
"""


def run_tests(*options: str, plugin: object | None = None) -> None:
    """Run the marked tests in this process, with our plugin alone."""
    import pytest

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    Path("test_marked.py").write_text(_MARKED, "utf-8")
    words = ["-q", "-W", "ignore", "-p", "agenttape_core.pytest_plugin", "-p", "no:cacheprovider", *options]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main([*words, "test_marked.py"], plugins=[plugin] if plugin is not None else [])
    if code:
        raise RuntimeError(said.getvalue())


def record() -> None:
    """Record what the paths replay, each call as often as it is made."""
    from agenttape_core import use_cassette
    from agenttape_langchain import tape

    sessions: dict[str, Callable[[], object]] = {
        "chat": lambda: fake().invoke(chat()),
        "tool": lambda: tape(weather()).invoke(_CALLED),
        "stream": lambda: list(tape(streaming()).stream(chat())),
        "messages": lambda: tape(fake()).invoke(chat(_MESSAGES)),
    }
    for name, act in sessions.items():
        with use_cassette(f"{name}.yaml", mode="all"):
            for _ in range(_TIMES):
                act()
    with use_cassette("once.yaml", mode="all"):
        taped().invoke(chat())
    run_tests("--cassette-mode=once")


# -- the paths ---------------------------------------------------------------------------------------------------


def replayed(name: str, act: Callable[[], object]) -> Figures:
    """Count a call in a session that replays."""
    from agenttape_core import use_cassette

    with use_cassette(f"{name}.yaml"):
        return third(act)


def replayed_awaited(name: str, act: Callable[[], Awaitable[object]]) -> Figures:
    """Count an awaited call in a session that replays."""
    from agenttape_core import use_cassette

    with use_cassette(f"{name}.yaml"):
        return third_awaited(act)


def taped(make: Callable[[], Any] = fake) -> Any:
    """Return a model with `tape` around it."""
    from agenttape_langchain import tape

    return tape(make())


def replay_model() -> Any:
    """Return a model that answers from the cassette."""
    from agenttape_langchain import ReplayChatModel

    return ReplayChatModel("chat.yaml")


def tool() -> Any:
    """Return a tool with `tape` around it."""
    from agenttape_langchain import tape

    return tape(weather())


def opened_and_closed() -> tuple[Figures, Figures]:
    """Count the beginning and the end of a session with one call, which is replayed and not counted."""
    from agenttape_core import use_cassette

    model, opening, closing = taped(), Counting(), Counting()
    for number in range(_TIMES):
        is_third = number == _TIMES - 1
        session = use_cassette("once.yaml")
        with opening if is_third else contextlib.nullcontext():
            session.__enter__()
        model.invoke(chat())
        with closing if is_third else contextlib.nullcontext():
            session.__exit__(None, None, None)
    return opening.figures(), closing.figures()


def marked() -> Figures:
    """Count a marked test with one call."""
    import pytest

    counting = Counting()

    class Plugin:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
            with counting if item.name == "test_third" else contextlib.nullcontext():
                return (yield)

    run_tests(plugin=Plugin())
    return counting.figures()


def commanded(*words: str) -> None:
    """Run the command in this process."""
    from agenttape_core.cli.app import run

    with contextlib.redirect_stdout(io.StringIO()):
        code = run(words)
    if code:
        raise RuntimeError(f"{words} ended with {code}")


def show() -> None:
    """Show a cassette of three calls, as the command does."""
    commanded("show", "chat.yaml")


def completed() -> None:
    """Complete the names of commands and of those in groups, as a shell asks for them."""
    from click.shell_completion import BashComplete

    from agenttape_core.cli.app import agenttape

    for words in ([], ["lab"], ["fleet"], ["cassette"]):
        if not BashComplete(agenttape, {}, "agenttape", "_AGENTTAPE_COMPLETE").get_completions(words, ""):
            raise RuntimeError(f"{words} has no completion")


def loaded(act: Callable[[], object]) -> Figures:
    """Count the modules of ours that a function loads in a new process, and all that went before it."""
    act()
    return {"loaded": sum(name.partition(".")[0].startswith("agenttape") for name in sys.modules)}


_HELP = ("--help", "lab --help", "fleet --help", "cassette --help")


def _loaded_by(words: str) -> Callable[[], Figures]:
    return lambda: loaded(lambda: commanded(*words.split()))


def first_session() -> None:
    """Replay one call in the first session of a process, and begin and end that session."""
    from agenttape_core import use_cassette

    with use_cassette("once.yaml"):
        fake().invoke(chat())


PATHS: dict[str, Callable[[], Figures]] = {
    "chat, tape": lambda: replayed("chat", _bound(taped().invoke)),
    "chat, tape, async": lambda: replayed_awaited("chat", _bound(taped().ainvoke)),
    "chat, automatic": lambda: replayed("chat", _bound(fake().invoke)),
    "chat, automatic, async": lambda: replayed_awaited("chat", _bound(fake().ainvoke)),
    "chat, replay model": lambda: third(_bound(replay_model().invoke)),
    "chat, replay model, async": lambda: third_awaited(_bound(replay_model().ainvoke)),
    "chat of 50 messages, tape": lambda: replayed("messages", _bound(taped().invoke, _MESSAGES)),
    "stream of 100 chunks, tape": lambda: replayed("stream", _read(taped(streaming))),
    "tool, tape": lambda: replayed("tool", _bound_to(tool())),
    "open": lambda: opened_and_closed()[0],
    "close": lambda: opened_and_closed()[1],
    "marked test": marked,
    "show three calls": lambda: third(show),
}


def _bound(call: Callable[[Any], Any], messages: int = 1) -> Callable[[], Any]:
    sent = chat(messages)
    return lambda: call(sent)


def _read(model: Any) -> Callable[[], object]:
    sent = chat()
    return lambda: list(model.stream(sent))


def _bound_to(called: Any) -> Callable[[], object]:
    return lambda: called.invoke(_CALLED)


# -- processes ---------------------------------------------------------------------------------------------------


def in_child(act: Callable[[], object]) -> Any:
    """Run a function in a forked process, and return what it returns, as JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            text = json.dumps(act())
            with os.fdopen(writing, "w") as told:
                told.write(text)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("a path could not be counted: its error is printed above")
    return json.loads(text)


def counted() -> dict[str, Figures]:
    """Return the figures of all paths."""
    if sys.flags.hash_randomization:
        raise RuntimeError("start it with PYTHONHASHSEED=0, or sets come in another order each time")
    gc.disable()
    warnings.simplefilter("ignore")
    for name in [name for name in os.environ if name.startswith(("AGENTTAPE_", "PYTEST_"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("pyproject.toml").write_text("[tool.agenttape]\n", "utf-8")  # the search for settings ends here
        in_child(record)
        # Before this process loads anything.
        figures = {
            "agenttape show": in_child(lambda: loaded(show)),
            "first session": in_child(lambda: loaded(first_session)),
            "completed commands": in_child(lambda: loaded(completed)),
            **{f"agenttape {words}": in_child(_loaded_by(words)) for words in _HELP},
        }

        import langchain_core.language_models.fake_chat_models
        import langchain_core.tools  # noqa: F401 - once for all paths; so it takes half as long

        import agenttape_langchain  # noqa: F401

        figures |= {name: in_child(path) for name, path in PATHS.items()}
        os.chdir(ROOT)
    return figures


if __name__ == "__main__":
    sys.modules["counts"] = sys.modules["__main__"]  # the marked tests import it
    sys.stdout.write(json.dumps(counted(), indent=2) + "\n")
