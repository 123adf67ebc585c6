"""The one decision, over every mode and option, against the rule said in one sentence each."""

from __future__ import annotations

import itertools

import pytest

from agenttape_core import Mode
from agenttape_core.engine import (
    Decision,
    Execute,
    Policy,
    Refuse,
    Replay,
    StepInto,
    decide,
    parse_match_on,
    parse_mode,
)
from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import Candidate, Selector

EXACT, LOSSY = Candidate(1, "exact"), Candidate(2, "exact", lossy="cut off")


def decided(policy: Policy, candidate: Candidate | None) -> Decision:
    """Decide on a call of a tool."""
    return decide(policy, "tool", "search", candidate)


NAMES = [Selector(), Selector({"tool"}), Selector({"search"}), Selector({"chat", "other"})]


@pytest.mark.parametrize("mode", Mode)
def test_every_combination(mode: Mode) -> None:
    """Calls in `replay_only` are only replayed; live ones are executed; the mode decides about the others."""

    def assert_decided(mode: Mode, recorded: bool, live: Selector, replay_only: Selector, known: bool) -> None:
        """Compare the decision on one combination with the rule."""
        decision = decided(Policy(mode, recorded, live, replay_only), EXACT if known else None)
        is_live, is_frozen = bool(live & {"tool", "search"}), bool(replay_only & {"tool", "search"})
        recording_anew = mode is Mode.RECORD or (mode in {Mode.ONCE, Mode.UPDATE} and not recorded)
        if is_frozen:
            expected: type = Replay if known else Refuse
        elif is_live or recording_anew:
            expected = Execute
        elif known:
            expected = Replay
        else:
            expected = Execute if mode in {Mode.ADD, Mode.UPDATE} else Refuse
        assert type(decision) is expected
        if isinstance(decision, Execute):
            assert decision.live is is_live
        if isinstance(decision, Replay):
            assert decision.found is EXACT

    for recorded, live, replay_only, known in itertools.product([False, True], NAMES, NAMES, [False, True]):
        assert_decided(mode, recorded, live, replay_only, known)


@pytest.mark.parametrize(
    ("policy", "replaces", "records", "offline", "replays"),
    [
        (Policy(Mode.REPLAY, recorded=True), False, False, True, True),
        (Policy(Mode.REPLAY, recorded=True, live=Selector({"chat"})), False, False, False, True),
        (Policy(Mode.ONCE, recorded=True), False, False, True, True),
        (Policy(Mode.ONCE, recorded=False), True, True, False, False),
        (Policy(Mode.ADD, recorded=True), False, True, False, True),
        (Policy(Mode.RECORD, recorded=True), True, True, False, False),
        (Policy(Mode.RECORD, recorded=True, replay_only=Selector({"tool"})), True, True, False, True),
    ],
)
def test_what_a_policy_means(policy: Policy, replaces: bool, records: bool, offline: bool, replays: bool) -> None:
    """What becomes of the file, and whether anything may happen or be replayed, follows from mode and options."""
    assert (policy.replaces, policy.records, policy.offline, policy.replays) == (replaces, records, offline, replays)


CONTAINED = Candidate(3, "exact", contained=True)


@pytest.mark.parametrize(
    ("policy", "candidate", "expected"),
    [
        (Policy(Mode.REPLAY, recorded=True), CONTAINED, StepInto(CONTAINED)),
        (Policy(Mode.ADD, recorded=True), CONTAINED, StepInto(CONTAINED)),
        (Policy(Mode.RECORD, recorded=True), CONTAINED, Execute(live=False)),
        (Policy(Mode.REPLAY, recorded=True), EXACT, Replay(EXACT)),
        (Policy(Mode.REPLAY, recorded=True, step_into=Selector({"search"})), EXACT, StepInto(EXACT)),
        (Policy(Mode.REPLAY, recorded=True, step_into=Selector({"tool"})), LOSSY, StepInto(LOSSY)),
        (Policy(Mode.REPLAY, recorded=True, step_into=Selector({"tool"})), None, Refuse(None)),
        (Policy(Mode.REPLAY, recorded=True, step_into=None), CONTAINED, Replay(CONTAINED)),
        (Policy(Mode.REPLAY, recorded=True, replay_only=Selector({"search"})), CONTAINED, Replay(CONTAINED)),
        (
            Policy(Mode.REPLAY, True, replay_only=Selector({"tool"}), step_into=Selector({"tool"})),
            CONTAINED,
            Replay(CONTAINED),
        ),
        (Policy(Mode.REPLAY, True, live=Selector({"tool"}), step_into=Selector({"tool"})), EXACT, Execute(live=True)),
        (Policy(Mode.REPLAY, recorded=True, executable=Selector({"chat"})), CONTAINED, StepInto(CONTAINED)),
    ],
)
def test_running_through(policy: Policy, candidate: Candidate | None, expected: Decision) -> None:
    """A tool that did nothing by itself and made calls is stepped into, and what is named; frozen and live win."""
    assert decided(policy, candidate) == expected


def test_only_tools_are_stepped_into_without_being_named() -> None:
    """A recorded call of another kind is replayed, whatever is recorded inside it, unless it is named."""
    assert decide(Policy(Mode.REPLAY, recorded=True), "call", "plan", CONTAINED) == Replay(CONTAINED)
    named = Policy(Mode.REPLAY, recorded=True, step_into=Selector({"plan"}))
    assert decide(named, "call", "plan", CONTAINED) == StepInto(CONTAINED)


def test_lossy() -> None:
    """A recording that is not exactly what came back is refused, and named, unless lossy ones are replayed."""
    assert decided(Policy(Mode.REPLAY, recorded=True), LOSSY) == Refuse(LOSSY)
    assert decided(Policy(Mode.ADD, recorded=True), LOSSY) == Refuse(LOSSY)
    assert decided(Policy(Mode.REPLAY, recorded=True, accepts_lossy=True), LOSSY) == Replay(LOSSY)
    assert decided(Policy(Mode.REPLAY, recorded=True), None) == Refuse(None)


def test_embeddings_are_idempotent() -> None:
    """Where what may be called again is executed for want of a recording, so are embeddings, and no retrieval."""
    policy = Policy(Mode.REPLAY, recorded=True, live=Selector({"idempotent"}))
    assert decide(policy, "embeddings", "Embeddings", None) == Execute(live=True)
    assert decide(policy, "embeddings", "Embeddings", EXACT) == Replay(EXACT)
    assert decide(policy, "retrieval", "Retriever", None) == Refuse(None)
    assert decide(Policy(Mode.REPLAY, recorded=True), "embeddings", "Embeddings", None) == Refuse(None)


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("none", Mode.REPLAY),
        ("all", Mode.RECORD),
        ("new_episodes", Mode.ADD),
        ("once", Mode.ONCE),
        (Mode.ADD, Mode.ADD),
    ],
)
def test_words(word: str, mode: Mode) -> None:
    """A mode has its name, and the name that VCR gives to it."""
    assert parse_mode(word) is mode


def test_unknown_word() -> None:
    """Another word is refused, with the known ones."""
    known = r"choose one of: replay, once, .*all \(VCR's name for record\)"
    with pytest.raises(ConfigurationError, match=rf"'Once' isn't a mode; {known}"):
        parse_mode("Once")


def test_ways_to_match() -> None:
    """A way is given as a word, a function, or several of them."""

    def same(asked: object, recorded: object) -> bool:
        return True

    assert parse_match_on("ordered") == ("ordered",)
    assert parse_match_on(["exact", same]) == ("exact", same)


@pytest.mark.parametrize("wrong", ["fingerprint", ["exact", "url"], 3])
def test_unknown_way(wrong: object) -> None:
    """Another word is refused, with the known ones."""
    with pytest.raises(ConfigurationError, match="expected one of exact, request, address, ordered, or a function"):
        parse_match_on(wrong)


def test_no_way() -> None:
    """No way at all is refused: nothing could be found."""
    with pytest.raises(ConfigurationError, match="can find no recording"):
        parse_match_on([])
