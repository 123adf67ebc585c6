"""Reports of fleets: the same bytes in any order and grouping, a few causes, and what isn't done yet."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.fleet.items import Item, Plan, hash_of, plan_of
from agenttape_core.fleet.outcomes import Outcome, Verdict
from agenttape_core.fleet.report import FORMS, Report, read_report

from . import desk
from .conftest import APP, Command

CAUSES: Sequence[tuple[Verdict, str, tuple[str, ...]]] = (
    ("changed", "chat Model at agent/model@1: messages[0].content", ()),
    ("changed", "chat Model at agent/model@3: tools[2]", ()),
    ("changed", "tool look_up at agent/tools@2: arguments.city", ()),
    ("broken", "", ("at_most",)),
)
"""Why runs aren't the same, in the small fleet."""


def fleet(size: int = 140) -> tuple[Plan, list[Outcome]]:
    """Return a plan and its outcomes: every seventh run isn't the same, for one of four reasons."""
    items = [Item(f"runs/{number:04}.yaml", hash_of(number), "replay", "desk:main") for number in range(size)]
    outcomes = [
        Outcome(
            item.id, item.cassette, "replay", "same", trajectory=hash_of(number % 3), calls=6, tokens=100 + number,
            dollars=None if number % 50 == 1 else number / 7000, seconds=number * 0.1,
        )
        for number, item in enumerate(items)
    ]  # fmt: skip
    for number in range(0, size, 7):
        verdict, where, rules = CAUSES[number // 7 % 4]
        cause = hash_of(where) if where else ""
        outcomes[number] = replace(outcomes[number], verdict=verdict, where=where, rules=rules, cause=cause)
    return plan_of(items), outcomes


PLAN, OUTCOMES = fleet()
ITEMS = {item.id: item for item in PLAN.items}


def part(outcomes: Sequence[Outcome]) -> Report:
    """Return the report on some outcomes."""
    return Report(ITEMS, {each.item: each for each in outcomes})


def store(folder: Path, plan: Plan, outcomes: Sequence[Outcome]) -> Path:
    """Write a store as workers do."""
    for key, data in [
        (f"plans/{plan.id}.jsonl", plan.text().encode()),
        *((one.key, one.to_bytes()) for one in outcomes),
    ]:
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def whole() -> dict[str, str]:
    """The report on all outcomes, in each form."""
    return in_each_form(part(OUTCOMES))


def in_each_form(report: Report) -> dict[str, str]:
    """Return a report in each form."""
    return {form: "".join(made(report)) for form, made in FORMS.items()}


@pytest.mark.slow
@given(chance=st.randoms(use_true_random=False), cuts=st.lists(st.integers(0, len(OUTCOMES)), max_size=6))
def test_any_order_and_grouping(whole: dict[str, str], chance: random.Random, cuts: list[int]) -> None:
    """Reports on overlapping parts, added in any order and grouping, have the bytes of the report on all."""
    bounds = [0, *sorted(cuts), len(OUTCOMES)]
    parts = [part(OUTCOMES[max(0, start - 5) : end]) for start, end in pairwise(bounds)]
    parts += [chance.choice(parts), Report()]
    chance.shuffle(parts)
    while len(parts) > 1:
        at = chance.randrange(len(parts) - 1)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    assert in_each_form(parts[0]) == whole


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2, 7, 50])
def test_shards_in_stores_of_their_own(shards: int, tmp_path: Path) -> None:
    """The report is the same bytes whether the shards wrote to one store or to many, whatever their order."""
    by_item = {each.item: each for each in OUTCOMES}
    stores = [
        store(tmp_path / str(number), PLAN, [by_item[item.id] for item in PLAN.shard(number, shards)])
        for number in range(1, shards + 1)
    ]
    assert in_each_form(read_report(stores[::-1])) == in_each_form(part(OUTCOMES))


@pytest.mark.slow
def test_replays_in_shards(fleet: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strict replays after a change give the same bytes in each form, in 1, 2, 7 or 50 shards, whatever their order."""
    desk.record(tmp_path / "runs", [f"City {number}" + " refund" * (number % 3 == 0) for number in range(8)])
    plan = fleet("plan", "runs", "--experiment", "replay", "--app", APP, "--revision", "now").out
    (tmp_path / "items.jsonl").write_text(plan)
    monkeypatch.setattr(desk, "how", "asks otherwise")
    found = set()
    for total in (1, 2, 7, 50):
        for number in range(total, 0, -1):
            assert fleet("work", "items.jsonl", "--shard", f"{number}/{total}", "--output", f"results{total}").code == 0
        files = [tmp_path / f"report{total}{form}" for form in FORMS]
        assert fleet("merge", f"results{total}", *(word for file in files for word in ("--report", file))).code == 1
        found.add(tuple(file.read_bytes() for file in files))
    assert len(found) == 1
    assert b"8 runs: 8 changed" in found.pop()[0]


def test_a_case_without_a_run(tmp_path: Path, fleet: Command) -> None:
    """A case of the rules that no run of the fleet belongs to fails each form of the report, as it fails a check."""

    @boundary("chat")
    def chat(messages: list[dict[str, str]]) -> str:
        return messages[0]["content"]

    for city in ("Oslo", "Bern"):
        with use_cassette(tmp_path / f"runs/{city}.yaml", mode="record"):
            chat([{"role": "user", "content": city}])
    rule = "  checks:\n  - at_most: {calls: 1}\n"
    (tmp_path / "rules.yaml").write_text(f"checks: 1\ncases:\n- prompt: Oslo\n{rule}- prompt: Rome\n{rule}")
    (tmp_path / "items.jsonl").write_text(fleet("plan", "runs", "--experiment", "check", "--checks", "rules.yaml").out)
    assert fleet("work", "items.jsonl", "--shard", "1/2", "--output", "out").code == 0
    assert fleet("merge", "out").out.startswith("2 runs: 1 same, 1 not done\n")
    assert fleet("work", "items.jsonl", "--shard", "2/2", "--output", "out").code == 0
    files = [tmp_path / f"report{form}" for form in FORMS]
    ended = fleet("merge", "out", *(word for file in files for word in ("--report", file)))
    assert (ended.code, ended.out.partition("\n")[0]) == (1, "2 runs: 2 same, 1 case without a run")
    assert [file.name for file in files if "rules.yaml:6" not in file.read_text()] == []
    assert json.loads((tmp_path / "report.json").read_text())["cases_without_run"] == ["rules.yaml:6"]


def test_an_item_with_two_outcomes() -> None:
    """If two stores have different outcomes of an item, one of them counts, whatever the order."""
    first, second = (replace(OUTCOMES[1], where=where) for where in "ab")
    assert part([first]) + part([second]) == part([second]) + part([first])
    assert (part([first]) + part([second])).verdicts()["same"] == 1


def test_few_causes() -> None:
    """Runs are grouped by the first new request or the broken rules, so that twenty runs have four lines."""
    report = part(OUTCOMES)
    assert [(one.verdict, one.where, len(one.outcomes)) for one in report.causes()] == [
        ("broken", "at_most", 5),
        *((verdict, where, 5) for verdict, where, rules in CAUSES if not rules),
    ]
    assert report.headline() == "140 runs: 120 same, 15 changed in 3 ways, 5 broken"
    assert [len(each) for _, each in report.trajectories()] == [47, 47, 46]


def test_sums_and_what_is_missing() -> None:
    """Tokens and dollars are summed up, runs of unknown cost counted apart; an item without an outcome fails."""
    plain = part(OUTCOMES).to_dict()
    assert plain["tokens"] == sum(100 + number for number in range(140))
    assert plain["dollars"] == pytest.approx(sum(number for number in range(140) if number % 50 != 1) / 7000)
    assert plain["unpriced"] == 3
    report = part(OUTCOMES[2:])
    assert report.headline().endswith("2 not done")
    assert report.to_dict()["missing"] == ["runs/0000.yaml", "runs/0001.yaml"]
    assert report.has_failed
    assert not Report(ITEMS, {each.item: replace(each, verdict="same") for each in OUTCOMES}).has_failed


def test_versions_that_do_not_fit() -> None:
    """Outcomes of two versions aren't added up: the error names both, with a recording of each."""
    newer = replace(OUTCOMES[3], versions={**OUTCOMES[3].versions, "agenttape": "9.9"})
    with pytest.raises(ConfigurationError, match=r"(?s)versions.*: 2 results, such as runs/0000.*9\.9.*runs/0003"):
        part(OUTCOMES[:2]) + part([newer])


def test_two_plans_in_a_store(tmp_path: Path, fleet: Command) -> None:
    """`merge` asks for one of two plans, by more than the beginning of both ids; a folder without any is refused."""
    ended = fleet("merge", tmp_path)
    assert ended.code == 2
    assert ": no plan\n  name the --output of agenttape fleet work" in ended.err
    others = (plan_of([replace(item, program=f"desk:{n}") for item in PLAN.items[:9]]) for n in range(1000))
    other = next(one for one in others if one.id[0] == PLAN.id[0])
    store(tmp_path, PLAN, OUTCOMES)
    store(tmp_path, other, [])
    for words in ((), ("--plan", PLAN.id[0])):
        ended = fleet("merge", tmp_path, *words)
        assert ended.code == 2
        assert "there are results of 2 plans; choose one" in ended.err
        assert f"--plan {PLAN.id}  replay, 140 items" in ended.err
        assert f"--plan {other.id}  replay, 9 items" in ended.err
    ended = fleet("merge", tmp_path, "--plan", other.id[:20])
    assert (ended.code, ended.out.partition("\n")[0]) == (1, "9 runs: 9 not done")
    assert "no plan none" in fleet("merge", tmp_path, "--plan", "none").err


def test_forms(tmp_path: Path, fleet: Command) -> None:
    """A report is written in each form, twice the same: tests for each item, and a result of SARIF for each cause."""
    store(tmp_path, PLAN, OUTCOMES)
    files = {form: tmp_path / "made" / f"report{form}" for form in FORMS}
    command = ["merge", tmp_path, *(word for file in files.values() for word in ("--report", file))]
    assert fleet(*command).code == 1
    before = {form: file.read_bytes() for form, file in files.items()}
    assert fleet(*command).out.count("tool look_up") == 1
    assert before == {form: file.read_bytes() for form, file in files.items()}
    assert json.loads(before[".json"])["verdicts"] == {
        "same": 120, "changed": 15, "broken": 5, "failed": 0, "unreadable": 0
    }  # fmt: skip
    suites = ET.fromstring(before[".xml"])
    assert (suites.get("tests"), suites.get("failures")) == ("140", "20")
    assert len(json.loads(before[".sarif"])["runs"][0]["results"]) == 4
    assert before[".md"].decode().startswith("### AgentTape: 140 runs: 120 same")
    assert "tool look_up at agent/tools@2: arguments.city" in before[".html"].decode()
    assert fleet("merge", tmp_path, "--report", "report.pdf").code == 2
    ended = fleet("merge", tmp_path, "--report", "memory://reports/report.md")
    assert (ended.code, "a report is a file here" in ended.err) == (2, True)
    assert not (tmp_path / "memory:").exists()
    assert "cannot be written" in fleet("merge", tmp_path, "--report", files[".md"] / "report.md").err


def test_texts_of_strangers() -> None:
    """Names in a report can't become markup of a page or a table."""
    named = replace(OUTCOMES[0], cassette="runs/<img src=x>|`a`.yaml", where="tool <script>alert(1)</script> at a|b")
    report = part([named])
    forms = in_each_form(report)
    assert "<script>" not in forms[".html"]
    assert "<img" not in forms[".html"]
    assert "`tool <script>alert(1)</script> at a/b`" in forms[".md"]
