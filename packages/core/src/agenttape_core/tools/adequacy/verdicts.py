"""The verdict on a mutant: who noticed it, or why nobody did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agenttape_core.tools.adequacy.facts import Facts
from agenttape_core.tools.adequacy.process import Reply

Verdict = Literal["miss", "assertion", "unused", "raised", "did not end", "survived", "did not land"]
"""The end of a mutant. It was noticed: by the replay, as a request is another one (*miss*); by an *assertion*, or
another result; by recordings that were *unused*; as the program *raised*, or *did not end*. Or it *survived*. Or it
*did not land*: no test reaches it."""
NOTICED: tuple[Verdict, ...] = ("miss", "assertion", "unused", "raised", "did not end")
_LAX = ("address", "ordered", "matcher", "repeated")


def verdict_of(before: Mapping[str, Facts], reply: Reply) -> tuple[Verdict, str, str]:
    """Return the verdict on a run with an edit, the reason in a few words, and the test that has noticed it.

    Args:
        before: The facts of the tests without an edit.
        reply: What came of the run.
    """
    if reply.ended:
        return "did not end", reply.ended, ""
    noticed = next((found for name, one in before.items() if (found := _noticed(name, one, reply)) is not None), None)
    if noticed is not None:
        return noticed
    if reply.problem:
        return "raised", reply.problem, ""
    if not reply.is_loaded:
        return "did not land", "the file was imported before it could be edited", ""
    return "survived", "; ".join(_hidden(before, reply)), ""


def _noticed(name: str, before: Facts, reply: Reply) -> tuple[Verdict, str, str] | None:
    """Return the verdict if a test has noticed the edit."""
    after = reply.facts.get(name)
    if after is None or (after.how == "passed" and after.value == before.value):
        return None
    if after.how == "skipped":
        return "raised", "the test is skipped", name
    if after.how == "passed":
        return "assertion", f"returned {_cut(after.value)}, not {_cut(before.value)}", name
    return after.how, after.words, name


def _hidden(before: Mapping[str, Facts], reply: Reply) -> list[str]:
    """Return why a run that passed did so although some of its calls were not as before."""
    found: dict[str, None] = {}
    for name, after in reply.facts.items():
        if name not in before:
            continue
        now, then = set(after.calls), set(before[name].calls)
        rungs = [rung for _, _, _, rung in sorted(now - then) if rung in _LAX]
        if rungs:
            found[f"match_on hides it: a request has changed, and was served by {rungs[0]}"] = None
        elif after.drift != before[name].drift:
            found['on_miss="return" hides it: a call had no recording'] = None
        elif set(after.unused) - set(before[name].unused):
            found[f"unused hides it: {len(after.unused)} recordings were not used, which the test allows"] = None
        elif now != then:
            found["calls were made elsewhere"] = None
    return list(found)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"


_MOST = 40
