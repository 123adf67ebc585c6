"""The threat model of docs/redaction.md: each paragraph of it has a test, or says something that no test can show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.redaction import PSEUDONYM, Redactor

ROOT = Path(__file__).parents[3]
HERE = "core/redaction/test_threat_model.py"
REDACT, FORMS, STRANGERS = "core/cli/test_redact.py", "core/redaction/test_forms.py", "core/storage/test_strangers.py"
REDACTOR, CANARY = "core/redaction/test_redactor.py", "core/redaction/test_canary.py"
REPLAYS = "core/lifecycle/test_forms_in_replays.py"
KEYED = f"{CANARY}::test_key_in_the_environment_is_not_in_the_file"
ADVICE = "advice, or a fact of the world outside of this library"


def test_each_part_has_a_test() -> None:
    """What the section says is in the table, once, and nothing else is; the tests that it names exist."""
    # The beginnings of the paragraphs, items and rows of the section, and the test of each.
    table = {
        "Redaction protects against this": f"{CANARY}::test_no_secret_reaches_the_disk_and_replay_is_the_same",
        "| the cassette, key in the environment": KEYED,
        "| the cassette, key in its header": f"{HERE}::test_guesses",
        "| the secrets too": "langchain/test_secrets.py::test_prompts_and_answers",
        "| the machine and the running process": ADVICE,
        "- *That* there was a secret": f"{HERE}::test_what_a_pseudonym_says",
        "- *Whether two secrets of one cassette are equal*": f"{REDACTOR}::test_pseudonyms_follow_the_key",
        "- *Whether a guess is right*": f"{HERE}::test_guesses",
        "- In brackets, nothing of its length": f"{HERE}::test_what_a_pseudonym_says",
        "By default the key stands in the header": "core/session/test_surroundings.py::test_key_in_the_environment",
        "Every copy of such a cassette has its key": "core/cli/test_redaction_key.py::test_no_verb_prints_the_key",
        "What is *around* a secret stays": f"{HERE}::test_what_is_around_stays",
        "- **People's names": f"{HERE}::test_what_is_not_seen",
        "- **Images, audio, PDF, archives**": f"{HERE}::test_what_is_not_seen",
        "- **Secrets without a form": f"{HERE}::test_what_is_not_seen",
        "- **Forms that a provider invents": ADVICE,
        "- **A secret in pieces**": f"{HERE}::test_what_is_not_seen",
        "- A secret with JSON escapes": f"{FORMS}::test_secrets_that_json_escapes_are_put_back",
        "- What is *named* stays": f"{HERE}::test_names_stay",
        "- *Rehydration follows the cassette.*": f"{HERE}::test_a_live_tool_gets_the_real_key",
        "- What is put back is what this session has seen": f"{REDACTOR}::test_unknown_pseudonyms_stay",
        "- *Where any call may be live*": f"{HERE}::test_a_live_tool_gets_nothing_of_another_run",
        "- It does not decide": f"{REPLAYS}::test_kinds_that_are_switched_off_are_in_the_header",
        "- Its files cost an error": f"{STRANGERS}::test_a_bomb_is_cheap",
        "- **Files of savers.**": "langgraph/test_saver_secrets.py::test_scan",
        "- **The memory of the process**": ADVICE,
        "- **What your program prints itself.**": ADVICE,
        "- **What is in the file already.**": f"{REDACT}::test_a_rule_that_came_later",
        "- `redact=False`": "core/session/test_surroundings.py::test_no_redaction",
        "[`agenttape cassette redact`]": f"{REDACT}::test_each_kind",
        "- **Names stay**": f"{REDACT}::test_what_is_left_is_told",
        "- **What equals a short or common secret": f"{REDACT}::test_what_is_left_is_told",
        "- **Journals** of recordings": f"{REDACT}::test_journals",
        "- **What cannot be read**": f"{REDACT}::test_journals",
        "A value that was given": f"{REDACT}::test_a_value_of_a_variable",
        "A rule cannot find what is a pseudonym already": f"{REDACT}::test_a_text_with_a_pseudonym_in_it",
        "What it does not reach": ADVICE,
        "- Two secrets of one kind": f"{HERE}::test_a_shared_pseudonym_is_not_put_back",
        "- Pseudonyms with a form are fewer": f"{HERE}::test_a_shared_pseudonym_is_not_put_back",
        "- Text that *looks* like a pseudonym": f"{REDACTOR}::test_contains_secret_ignores_pseudonyms",
        "- Where a run has a reserved phone number": f"{FORMS}::test_a_reserved_number_of_the_run_is_not_mistaken",
        "- A text that is no secret": "core/redaction/test_quality.py::test_precision",
    }

    def parts() -> list[str]:
        """Return the paragraphs, items and rows of the section."""
        text = (ROOT / "docs/redaction.md").read_text("utf-8")
        section = text[text.index("## Threat model") : text.index("## How well it works")]
        found = re.split(r"\n\n|\n(?=[-|#] ?)", section)
        return [part.strip() for part in found if part.strip() and not re.match(r"#|\| who|\|---", part.strip())]

    beginnings = {part: [start for start in table if part.startswith(start)] for part in parts()}
    assert len(beginnings) == len(table)
    assert [part for part, starts in beginnings.items() if len(starts) != 1] == []
    assert [start for start in table if [start] not in beginnings.values()] == []
    for named in table.values():
        if named != ADVICE:
            path, _, test = named.partition("::")
            assert f"def {test}" in (ROOT / "tests" / path).read_text("utf-8"), named


def test_what_a_pseudonym_says() -> None:
    """A pseudonym in brackets says the kind and nothing of the length; one with a form says what the form keeps."""
    redactor = Redactor("k")
    short, long = (redactor.value({"password": "p4ss-" * times})["password"] for times in (2, 20))
    assert [bool(PSEUDONYM.fullmatch(each)) for each in (short, long)] == [True, True]
    assert len(short) == len(long)
    assert redactor.text("+1 (415) 777-2671").count("(") == 1


def test_guesses() -> None:
    """Who has the key can tell whether a guess is right, and who has not cannot."""
    kept = Redactor("k").text("ann.lee@nordwind-mail.com")
    assert Redactor("k").text("ann.lee@nordwind-mail.com") == kept
    assert Redactor("another").text("ann.lee@nordwind-mail.com") != kept


def test_what_is_around_stays() -> None:
    """The sentence and the name of the field stay as they are."""
    assert re.sub(PSEUDONYM.pattern, "X", Redactor("k").text("for Bob: api_key=Zq81-ffk2-19dx, thanks")) == (
        "for Bob: api_key=X, thanks"
    )


@pytest.mark.parametrize("plain", [
    "Ann Lee, born 1990-04-01, lives at 5 Elm Street, diabetes",
    ("sk-" + "proj-" + "a1B2c3D4" * 5).encode().hex(),
    ("sk-" + "proj-" + "a1B2c3D4" * 5)[::-1],
    "password: correcthorse",
    "4155552671",
    ["my key begins with sk-proj-a1B2", "and ends with c3D4e5F6"],
])  # fmt: skip
def test_what_is_not_seen(plain: Any) -> None:
    """What the section lists as not seen is not: a name for it, or a rule, is needed."""
    assert Redactor("k").value(plain) == plain


def test_names_stay(tmp_path: Path) -> None:
    """The name of a tool is no place for a secret: it stays."""

    @boundary("tool", name="ann.lee@nordwind-mail.com")
    def ask() -> str:
        return "yes"

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        ask()
    assert next(open_cassette(tmp_path / "c.yaml").interactions()).name == "ann.lee@nordwind-mail.com"


def test_a_live_tool_gets_the_real_key(tmp_path: Path) -> None:
    """Of a changed answer the real key reaches a tool that is live, so changes of cassettes are read as code."""
    key = "sk-" + "proj-" + "a1B2c3D4" * 5
    reached: list[str] = []

    @boundary("chat")
    def think(prompt: str) -> str:
        return f"fetch http://here/?k={prompt}"

    @boundary("tool")
    def fetch(url: str) -> str:
        reached.append(url)
        return "ok"

    def run() -> None:
        fetch(think(key))

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        run()
    assert key not in path.read_text()
    path.write_text(path.read_text().replace("http://here/", "http://elsewhere/"))
    with use_cassette(path, live=["tool"]):
        run()
    assert reached[1] == f"fetch http://elsewhere/?k={key}"


@pytest.mark.parametrize("streams", [False, True])
def test_a_live_tool_gets_nothing_of_another_run(tmp_path: Path, *, streams: bool) -> None:
    """A pseudonym in an answer to a run that has not held its secret stays one, if a tool is live; not so offline."""
    key, reached = "sk-" + "proj-" + "a1B2c3D4" * 5, []
    answers = {key: key, "hello": "somewhere"}

    @boundary("chat")
    def think(prompt: str) -> str:
        return f"to {answers[prompt]}"

    @boundary("chat")
    def tell(prompt: str) -> Iterator[str]:
        yield f"to {answers[prompt]}"
        yield ""

    @boundary("tool")
    def fetch(url: str) -> str:
        reached.append(url)
        return f"found {key}"

    @boundary("tool")
    def talk(prompt: str) -> None:
        fetch("".join(tell(prompt)) if streams else think(prompt))

    def run() -> list[str]:
        reached.clear()
        for prompt in answers:
            talk(prompt)
        return list(reached)

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        assert run() == [f"to {key}", "to somewhere"]
    pseudonym = PSEUDONYM.search(path.read_text())
    assert pseudonym is not None
    path.write_text(path.read_text().replace("somewhere", pseudonym[0]))
    with use_cassette(path, live=["fetch"]):
        assert run() == [f"to {key}", f"to {pseudonym[0]}"]


def test_a_shared_pseudonym_is_not_put_back() -> None:
    """Of two numbers with one pseudonym neither is put back."""
    redactor = Redactor("k")
    shared: dict[str, str] = {}
    for number in range(2000):
        phone = f"(415) 777-{number:04d}"
        made = redactor.text(phone)
        if made in shared:
            assert redactor.rehydrate(made) == made
            return
        shared[made] = phone
    pytest.fail("no two numbers share a pseudonym")
