"""Evaluators as checks and as scores; what their judges ask is recorded apart from the run."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.checks import Run, check, check_run, judged, run_of
from agenttape_core.checks.check_file import parsed
from agenttape_core.cli.app import run
from agenttape_core.cli.app import run as command
from agenttape_core.errors import ConfigurationError

from .conftest import ANSWER, QUESTION, support


def short(outputs: dict[str, Any]) -> bool:
    """Return whether the answer is short."""
    return len(outputs["answer"]) < 100


async def later(outputs: Any) -> bool:
    """Return something, and leave no coroutine behind that nobody awaits."""
    return True


class Evaluator:
    """An evaluator in the form of LlamaIndex's."""

    def evaluate(self, query: str, response: str, contexts: list[str], reference: str = "") -> Any:
        """Return whether the answer follows from the contexts."""
        passing = "5 for A-7" in contexts and query == QUESTION and response == ANSWER
        return SimpleNamespace(
            passing=passing, score=1.0, feedback="grounded", invalid_result=False, reference=reference
        )


def test_answers_of_evaluators(recorded: Path) -> None:
    """A boolean, a number, a mapping, an object and several of them are scores, which pass or do not."""

    def compared(inputs: Any, outputs: Any, reference_outputs: Any) -> dict[str, Any]:
        """Return whether the answer is the expected one, as LangSmith's evaluators do."""
        same = outputs == reference_outputs
        return {"key": "same", "score": same, "comment": f"{inputs}: {outputs}"}

    passing = [
        judged(short),
        judged(compared, of="answer", reference=ANSWER),
        judged(lambda outputs: [{"key": "a", "score": 0.7}, {"key": "b", "score": True}], name="two", at_least=0.5),
        judged(Evaluator()),
        judged(
            lambda run, example: {"results": [{"score": run.outputs == example.outputs}]}, of="answer", reference=ANSWER
        ),
    ]
    result = check(recorded, *passing)
    assert [each.scores for each in result.judged[:4]] == [
        (("short", True),),
        (("same", True),),
        (("a", 0.7), ("b", True)),
        (("Evaluator", True),),
    ]
    failing = {
        judged(compared, of="answer", reference="no"): "same is not content",
        judged(lambda outputs: 0.4, name="number", at_least=0.5): "number scored 0.4, and at least 0.5",
        judged(lambda outputs: float("nan"), name="nan"): "nan scored nan, and at least 1",
        judged(lambda outputs: None, name="none"): "none gave no score",
        judged(lambda outputs: {"comment": "?"}, name="empty"): "empty gave no score",
        judged(lambda outputs: [], name="list"): "list gave no score",
        judged(lambda outputs: 1 / 0, name="broken"): "broken raised ZeroDivisionError",
    }
    for failed, message in failing.items():
        (finding,) = check_run(run_of(recorded), [failed]).findings
        assert finding.message == message
    assert sorted(path.name for path in recorded.parent.iterdir()) == ["support.yaml"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: judged(3), "judged: expected an evaluator, found 3"),
        (lambda: judged(short, of="text"), "judged: of is one of run, answer, messages, found 'text'"),
        (lambda: judged(short, at_least=True), "judged: at_least is a number, found True"),
        (lambda: check(Run(name="x", path="x.yaml"), judged(later)), "judged: the evaluator is asynchronous"),
        (
            lambda: check(Run(name="x", path="x.yaml"), judged(lambda x: True)),
            "judged: the evaluator takes x\n  expected inputs",
        ),
        (lambda: check(Run(name="x"), judged(short)), "judged: x isn't a local file"),
    ],
)
def test_malformed_evaluators(wrong: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no evaluator is refused with what was expected."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=f"^{re.escape(said)}"):
        wrong()


def test_what_a_judge_asks_is_recorded(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that asks a model is recorded beside the run on demand, then replayed; what is not recorded fails."""
    judge = dedent("""
        from agenttape_core import boundary

        ASKED = []


        @boundary("call")
        def opinion(answer):
            ASKED.append(answer)
            return 0.9


        def polite(outputs):
            return {"score": opinion(outputs["answer"]), "comment": "quite"}
    """)

    monkeypatch.syspath_prepend(str(recorded.parent))
    (recorded.parent / "house_judges.py").write_text(judge)
    (recorded.parent / "judges.yaml").write_text(
        "checks: 1\nevery:\n- judged: {evaluator: 'house_judges:polite', at_least: 0.8}\n"
    )
    words = ["check", "support.yaml", "--checks", "judges.yaml"]
    assert command(words) == 1
    assert "polite asked for something that is not recorded; record it: agenttape check" in capsys.readouterr().out
    judges = sys.modules["house_judges"]
    assert judges.ASKED == []
    assert command([*words, "--record-judges"]) == 0
    assert [item.name for item in open_cassette("support.polite.judge.yaml").interactions()] == ["opinion"]
    capsys.readouterr()
    assert command([*words, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    assert found["checks"][0]["scores"] == {"polite": 0.9}
    assert command(["check", "--checks", "judges.yaml"]) == 0, "what judges asked isn't a run"
    check(recorded, judged(judges.polite, at_least=0.5))
    assert judges.ASKED == [ANSWER]
    monkeypatch.delitem(sys.modules, "house_judges")


@pytest.mark.parametrize("name", ["house", "no_such_module:x", "json:no_such_function", ":x"])
def test_evaluators_that_cannot_be_loaded(name: str) -> None:
    """A name that leads to no evaluator is refused when the file is read."""
    with pytest.raises(ConfigurationError, match=r"c\.yaml:3: judged: "):
        parsed(f"checks: 1\nevery:\n- judged: '{name}'\n", "c.yaml")


@pytest.mark.slow
def test_evaluators_of_libraries(recorded: Path) -> None:
    """Those of agentevals and openevals work as they are."""
    from agentevals.trajectory.match import create_trajectory_match_evaluator  # type: ignore[import-untyped]
    from openevals.exact import exact_match

    conversation = run_of(recorded).conversation()
    superset = create_trajectory_match_evaluator(trajectory_match_mode="superset")
    check(recorded, judged(superset, reference=conversation), judged(exact_match, of="answer", reference=ANSWER))
    other = [{"role": "user", "content": QUESTION}]
    with pytest.raises(AssertionError, match="is not content"):
        check(recorded, judged(create_trajectory_match_evaluator(trajectory_match_mode="strict"), reference=other))
    with pytest.raises(AssertionError, match="equal is not content"):
        check(recorded, judged(exact_match, of="answer", reference="no", name="equal"))


EVALUATORS = """
def length(outputs):
    return len(outputs["answer"]) / 100

def short(outputs):
    return len(outputs["answer"]) < 10

def broken(outputs):
    raise OSError("gone")
"""


@pytest.fixture
def score(recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Score the cassettes of the folder; return the exit code and the rows."""
    (recorded.parent / "house_scores.py").write_text(EVALUATORS)
    monkeypatch.syspath_prepend(str(recorded.parent))

    def score(*words: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run(["check", "--only", "score", ".", *words, "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out)["scores"] if out else None

    yield score
    sys.modules.pop("house_scores", None)


def test_scores_are_added_replaced_selected_and_removed(score: Any, recorded: Path) -> None:
    """A score is added beside the others, kept, replaced and removed; the cassette stays."""
    before = recorded.read_bytes()
    assert score()[1] == [{"run": "support.yaml", "scores": {}, "stale": False, "findings": []}]
    assert not Path("support.scores.json").exists()
    assert score("--evaluator", "house_scores:length")[1][0]["scores"] == {"length": 0.3}
    written = Path("support.scores.json").read_bytes()
    assert score("--evaluator", "house_scores:length")[0] == 0
    assert Path("support.scores.json").read_bytes() == written
    assert score("--evaluator", "house_scores:short")[1][0]["scores"] == {"length": 0.3, "short": False}
    Path("support.scores.json").write_text(written.decode().replace("0.3", "0.5"))
    assert score("--evaluator", "house_scores:length")[1][0]["scores"] == {"length": 0.5}
    assert score("--evaluator", "house_scores:length", "--replace")[1][0]["scores"] == {"length": 0.3}
    assert score("--remove", "length")[1][0]["scores"] == {}
    assert recorded.read_bytes() == before


def test_scores_of_another_recording_are_dropped(score: Any, recorded: Path) -> None:
    """Scores of a run that was recorded anew with another answer are told, and not kept."""
    score("--evaluator", "house_scores:length")
    with use_cassette(recorded, mode="all"):
        support(answer="No.")
    assert score()[1] == [{"run": "support.yaml", "scores": {}, "stale": True, "findings": []}]
    assert score("--evaluator", "house_scores:short")[1][0]["scores"] == {"short": True}


def test_an_evaluator_that_fails(score: Any) -> None:
    """An evaluator that raises is a finding, and costs no other score."""
    code, rows = score("--evaluator", "house_scores:broken", "--evaluator", "house_scores:length")
    assert (code, rows[0]["scores"], rows[0]["findings"][0]["message"]) == (
        1,
        {"length": 0.3},
        "broken raised OSError",
    )
    Path("support.scores.json").write_text("[]")
    assert score()[0] == 2
    assert score("--evaluator", "house_scores:missing")[0] == 2
