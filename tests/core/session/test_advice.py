"""Each miss gives only advice that helps for its cause."""

from __future__ import annotations

import datetime as dt
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError, DateAtImportWarning

YES = "yes, record only what changed"
AGAIN = "record everything again"
IGNORE = 'ignore=["arguments.prompt"]'
OUTSIDE = "drawn outside the session"
NEW = "new in every run"
FREEZE = "or freeze it"
INSIDE = "build it inside a function"
SORT = "sorted(the_set)"
SEED = "PYTHONHASHSEED="
ROUND = "round(the_number, 6)"
ALL = (YES, AGAIN, IGNORE, OUTSIDE, NEW, FREEZE, INSIDE, SORT, SEED, ROUND)


def causes() -> dict[str, tuple[Any, Any, set[str]]]:
    """Return what is recorded, what is asked and the advice. In a function: a global's dates would be a module's."""
    return {
        "another word": ("Fly to Paris", "Fly to Rome", {YES, AGAIN}),
        "a token": ("4f1a09c2", "97bb01e4", {IGNORE, NEW, FREEZE}),
        "a random number": (0.4417263, 0.9917263, {IGNORE, NEW, FREEZE}),
        "a reading of a clock": (1700000000.25, 1700000001.5, {IGNORE, NEW, FREEZE}),
        "a number computed elsewhere": (0.12345678901, 0.12345678902, {IGNORE, ROUND}),
        "a setting": (0.5, 0.7, {YES, AGAIN}),
        "a date that you may have edited": ("On 2019-05-01", "On 2019-05-02", {YES, AGAIN, IGNORE, NEW, INSIDE}),
        "a moment": ("2019-05-01T10:00:00.123", "2019-05-02T10:00:00.456", {IGNORE, OUTSIDE, INSIDE}),
        "the order of a set": ("red, blue", "blue, red", {SORT, SEED, YES, AGAIN}),
    }


@boundary("chat")
def ask(prompt: Any) -> str:
    """Answer."""
    return "answer"


def missed(path: Path, recorded: Any, asked: Any) -> str:
    """Return the message of a miss."""
    with use_cassette(path, mode="record"):
        ask(recorded)
    with pytest.raises(CassetteMissError) as caught, use_cassette(path):
        ask(asked)
    return str(caught.value)


@pytest.mark.parametrize("cause", causes())
def test_a_miss_gives_only_advice_that_helps(cause: str, tmp_path: Path) -> None:
    """Each cause has its own advice, and no other cause's."""
    recorded, asked, advice = causes()[cause]
    message = missed(tmp_path / "c.yaml", recorded, asked)
    assert {text for text in ALL if text in message} == advice


def test_todays_date_is_not_taken_for_an_edit(tmp_path: Path) -> None:
    """A replay's clock shows the day of the recording, so today's date comes from outside the session."""
    message = missed(tmp_path / "c.yaml", "On 2019-05-01", f"On {time.strftime('%Y-%m-%d')}")
    assert {text for text in ALL if text in message} == {IGNORE, OUTSIDE, INSIDE}


def test_another_order_may_be_yours(tmp_path: Path) -> None:
    """Recording again helps only if you changed the order yourself, so the miss asks."""
    message = missed(tmp_path / "c.yaml", ["b", "a"], ["a", "b"])
    assert "Did you change the order yourself?" in message
    assert "Did you mean to change this?" not in message


TODAY = "dt.datetime.now()"  # as code: a date here would be one of this module's


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function that imports a module of the program, made of its source, before any session."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[str] = []

    def make(source: str, name: str = "own_prompts") -> ModuleType:
        (tmp_path / f"{name}.py").write_text(f"import datetime as dt\n{textwrap.dedent(source)}\n")
        made.append(name)
        sys.modules.pop(name, None)
        return __import__(name)

    yield make
    for name in made:
        sys.modules.pop(name, None)


def recorded(path: Path, text: Any) -> list[str]:
    """Record a call, and return the warnings about dates."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with use_cassette(path, mode="all"):
            ask(text() if callable(text) else text)
    return [str(each.message) for each in caught if issubclass(each.category, DateAtImportWarning)]


SPELLINGS = ["%Y-%m-%d", "%B %d, %Y", "%d %B %Y", "%m/%d/%Y", "%d.%m.%Y", "%A, %B %d, %Y", "%b %d, %Y", "%A, %d %B"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_date_in_a_prompt_is_reported(module: Any, spelling: str, tmp_path: Path) -> None:
    """The warning names the date and the global that holds it, however the date is spelt."""
    prompts = module(f"SYSTEM = f'You help. Today is {{{TODAY}:{spelling}}}, {{{{name}}}}.'")
    (said,) = recorded(tmp_path / "c.yaml", [{"role": "system", "content": prompts.SYSTEM}])
    assert "own_prompts.SYSTEM" in said
    assert "build it inside a function" in said


HOLDERS = {
    "DAY": "DAY = dt.date.today()\ndef text(): return f'Today is {DAY:%B %d, %Y}'",
    "PROMPTS": f"PROMPTS = {{'system': {TODAY}.strftime('Today is %B %d, %Y')}}\ndef text(): return PROMPTS['system']",
    "text": f"def text(day={TODAY}.strftime('%B %d, %Y')): return f'Today is {{day}}'",
    "Prompts": f"class Prompts:\n    system = {TODAY}.strftime('Now: %B %d, %Y')\ndef text(): return Prompts.system",
    "agent": (
        f"class Agent:\n    def __init__(self): self.system = {TODAY}.strftime('Today is %B %d, %Y')\n"
        "agent = Agent()\ndef text(): return agent.system"
    ),
    "asker": (
        f"def make(system):\n    def text(): return system\n    return text\n"
        f"asker = make({TODAY}.strftime('Today is %B %d, %Y'))\ntext = lambda: asker()"
    ),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_holder_is_found(module: Any, holder: str, tmp_path: Path) -> None:
    """A date is also found in a dict, a default, a class, an object or a closure."""
    prompts = module(HOLDERS[holder])
    (said,) = recorded(tmp_path / "c.yaml", prompts.text)
    assert f"own_prompts.{holder}" in said


def test_date_of_a_function_is_no_matter(module: Any, tmp_path: Path) -> None:
    """A date that a function draws in the session is replayed: no warning, even if a log of the module has it."""
    prompts = module(
        f"""
        log = []
        class Model:
            def __init__(self): self.asked = []
        model = Model()
        def text():
            made = f'Today is {{{TODAY}:%B %d, %Y}}'
            log.append(made); model.asked.append(made)
            return made
        """
    )
    assert recorded(tmp_path / "one.yaml", prompts.text) == []
    assert recorded(tmp_path / "two.yaml", prompts.text) == []
    with use_cassette(tmp_path / "two.yaml"):
        assert ask(prompts.text()) == "answer"


def test_a_script_is_not_suspected_for_its_results(module: Any, tmp_path: Path) -> None:
    """A date that a script's function draws in its sessions is no matter, but one that it drew before them is."""
    script = f"""
        from agenttape_core import boundary, use_cassette
        @boundary
        def ask(asked): return 'answer to ' + asked
        def text(): return {TODAY}.strftime('Today is %B %d, %Y')
        SYSTEM = <system>
        for number in range(2):
            with use_cassette({str(tmp_path)!r} + f'/{{number}}.yaml', mode='all'):
                asked = text()
                answer = ask(asked)
                again = ask(answer)
    """
    module(script.replace("<system>", "''"))  # a warning would be an error here
    with pytest.warns(DateAtImportWarning, match="own_prompts.SYSTEM"):
        module(script.replace("<system>", "text()"))


def test_date_in_the_name_of_a_log_is_no_matter(module: Any, tmp_path: Path) -> None:
    """A date of a function isn't taken for the module's, even if a path, banner or id there has the same one."""
    prompts = module(
        f"""
        LOG = {TODAY}.strftime('logs/%Y-%m-%d.log')
        BANNER = {TODAY}.strftime('Started on %Y-%m-%d')
        RUN = {{'id': {TODAY}.strftime('run-%Y-%m-%d-7')}}
        def text(): return {TODAY}.strftime('Today is %Y-%m-%d.')
        """
    )
    assert recorded(tmp_path / "c.yaml", prompts.text) == []


def test_date_of_a_later_request_is_reported(module: Any, tmp_path: Path) -> None:
    """A function's date in the first request doesn't hide the module's in the second."""
    prompts = module(
        f"SYSTEM = {TODAY}.strftime('“Heute” ist der %d.%m.%Y')\ndef text(): return f'{{{TODAY}:%d.%m.%Y}}'"
    )
    (said,) = recorded(tmp_path / "c.yaml", lambda: [ask(prompts.text()), prompts.SYSTEM])
    assert "own_prompts.SYSTEM" in said


def test_other_dates_are_no_matter(module: Any, tmp_path: Path) -> None:
    """A date of another day, or a number that holds today's, is none of today."""
    prompts = module(
        "SYSTEM = f'Founded on {dt.date.today() - dt.timedelta(days=400):%B %d, %Y}, ref 9{dt.date.today()}7'"
    )
    assert recorded(tmp_path / "c.yaml", prompts.SYSTEM) == []


def test_it_is_said_once(module: Any, tmp_path: Path) -> None:
    """However many requests hold the date, there is one warning for each spelling; a replay gives none."""
    prompts = module(f"SYSTEM = {TODAY}.strftime('Today is %B %d, %Y')")
    assert len(recorded(tmp_path / "c.yaml", lambda: [ask(f"{prompts.SYSTEM} {number}") for number in range(3)])) == 1
    with use_cassette(tmp_path / "c.yaml", on_unused="ignore"):  # a warning would be an error here
        ask(f"{prompts.SYSTEM} 0")


def test_miss_of_tomorrow_is_explained(module: Any, tmp_path: Path) -> None:
    """A miss that differs in a date only names the global that drew it, and says what to do."""
    yesterday = (dt.date.today() - dt.timedelta(days=1)).strftime("Today is %A, %B %d, %Y")  # noqa: DTZ011
    prompts = module(f"SYSTEM = {TODAY}.strftime('Today is %A, %B %d, %Y')")
    user = {"role": "user", "content": "Hi"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DateAtImportWarning)
        system = [{"role": "system", "content": text} for text in (yesterday, prompts.SYSTEM)]
        message = missed(tmp_path / "c.yaml", [system[0], user], [system[1], user])
    assert "own_prompts.SYSTEM drew it when it was imported" in message
    assert "build it inside a function" in message


def test_miss_in_a_time_alone_says_so(tmp_path: Path) -> None:
    """A miss that differs only in a time of day inside a text shows that time, and how to have the recorded one."""
    message = missed(tmp_path / "c.yaml", "It's 2026-11-29 18:00:01. Be kind.", "It's 2026-11-29 18:04:59. Be kind.")
    assert "only a time differs, '2026-11-29 18:04:59'" in message


def test_miss_of_dates_that_no_module_drew(module: Any, tmp_path: Path) -> None:
    """A date beside another word is no matter, and a day long gone in a module is one that you wrote."""
    both = missed(tmp_path / "a.yaml", "Today is January 3, 2020. Be kind.", "Today is January 4, 2020. Be rude.")
    assert "only a date differs" not in both
    edited = missed(tmp_path / "b.yaml", "On 2019-05-01", module("ASKED = 'On 2019-05-02'").ASKED)
    assert "yes, record only what changed" in edited
    assert "drew it" not in edited
