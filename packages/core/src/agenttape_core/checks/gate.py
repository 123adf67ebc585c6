"""The gate: many runs, the checks of files, and a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from agenttape_core.checks.check_file import Case, CheckFile
from agenttape_core.checks.checking import check_run
from agenttape_core.checks.run import Run, unchanged
from agenttape_core.checks.traces import nearest_prompt
from agenttape_core.errors import AgentTapeError, CassetteError
from agenttape_core.matching import spelled
from agenttape_core.tools.reporting import Checked, Finding, Judged

UNREADABLE = "readable"  # the word of the finding about a run that cannot be read
MISSING = "case"  # the word of the finding about a case without a run


def judge(
    runs: Iterable[tuple[str, Callable[[], Run]]], files: Sequence[CheckFile], more: Callable[[Run], Iterable[Judged]]
) -> Iterator[Checked]:
    """Yield what the checks and `more` say about each run, then the verdict on each case without a run."""
    every = [check for file in files for check in file.every]
    cases: dict[str, list[Case]] = {}
    for file in files:
        for case in file.cases:
            cases.setdefault(case.prompt, []).append(case)
    prompts: dict[str, None] = {}
    found_cases: set[str] = set()
    said: Callable[[str], str] = unchanged
    for name, read in runs:
        try:
            run = read()
        except CassetteError as error:
            yield Checked(name, name, "", (unreadable(name, error),))
            continue
        whole, said = check_run(run, every), run.as_recorded
        judged = list(whole.judged)
        for turn, prompt in turns_with_a_case(run, cases):
            found_cases.add(prompt)
            judged += check_run(turn, [check for case in cases[prompt] for check in case.checks]).judged
        prompts.update(dict.fromkeys(turn.prompt for turn in _turns(run)))
        yield replace(whole, judged=(*judged, *more(run)))
    for prompt, several in cases.items():
        if prompt not in found_cases:
            yield from (_missing(case, said(prompt), prompts) for case in several)


def _turns(run: Run) -> Sequence[Run]:
    """Return the turns of a run. A run of one turn is that turn."""
    return run.turns() or (run,)


def turns_with_a_case(run: Run, cases: Mapping[str, object]) -> Iterator[tuple[Run, str]]:
    """Yield the turns for which there is a case, each with the prompt of the case."""
    if not cases:
        return
    others: dict[str, str] = {}
    turns = _turns(run)
    if any(turn.prompt not in cases for turn in turns):  # perhaps for a secret in it, whose pseudonym was recorded
        others = {run.as_recorded(prompt): prompt for prompt in cases}
    for turn in turns:
        said = turn.prompt
        prompt = said if said in cases else others.get(said)
        if prompt is None:  # a secret in it may have been found elsewhere in the run
            prompt = next((each for each in cases if run.as_recorded(each, said) == said), None)
        if prompt is not None:
            yield turn, prompt


def unreadable(path: str, error: AgentTapeError) -> Judged:
    """Return the check that fails because a file can't be read, with the remedy."""
    problem, remedy = getattr(error, "problem", str(error)), str(error).partition("\n")[2]
    message = f"{problem}\n{remedy}" if remedy and remedy not in problem else problem
    return Judged(
        UNREADABLE, "can be read", (Finding(message, rule=UNREADABLE, path=path, line=getattr(error, "line", None)),)
    )


def _missing(case: Case, prompt: str, prompts: Iterable[str]) -> Checked:
    """Return the failure of a case without a run, whose prompt is shown as a recording would hold it."""
    nearest = nearest_prompt(prompt, filter(None, prompts))
    finding = Finding(
        "no run has exactly this prompt" + ("; the nearest differs" if nearest is not None else ""),
        expected=prompt,
        found=nearest or "",
        differences=(spelled("prompt", prompt, nearest),) if nearest is not None else (),
        rule=MISSING,
        path=case.path,
        line=case.line,
    )
    return Checked(f"{case.path}: {case.name}", case.path, prompt, (Judged(MISSING, "case has a run", (finding,)),))
