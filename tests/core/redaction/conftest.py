"""The labelled corpus: it is read from `corpus/`, and its secrets are made here, when the tests run.

No file of this repository holds anything that looks like a live secret, so scanners of git hosts stay quiet; the
generator is seeded by the place of each text, so the corpus is the same on every machine.

In the files, `⟦kind⟧` is a secret made by the first form of its kind in `tokens.yaml` and `⟦kind.2⟧` by the second,
`⟦kind=secret⟧` is a secret as it stands, `⟦kind=~form⟧` one made by a form, and `⟦~form⟧` a random run that is *no*
secret. `|json`, `|json2` and `|indent` at the end of a kind say how the secret is written.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from agenttape_core.redaction import Redactor

KEY = "0" * 64
FOLDER = Path(__file__).parent / "corpus"
ALPHABETS = {
    "h": string.digits + "abcdef",
    "H": string.digits + "ABCDEF",
    "a": string.ascii_letters + string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "u": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "t": string.ascii_uppercase + "234567",
}
MARK = re.compile(r"⟦([^⟧]*)⟧")
MADE_OVER = 8
"""How many texts are made of one that holds a random run."""
PLACES_PER_NAME = 3
"""In how many places of its convention a name is planted."""
PLAIN_PER_FORM = 4
"""In how many surroundings that do not give it away each form of a secret is planted."""


class Label(NamedTuple):
    """One secret, and where it stands in its string."""

    kind: str
    start: int
    end: int


class Case(NamedTuple):
    """A text, or plain data, with its secrets labelled.

    Args:
        plain: The text or the data.
        labels: What is secret in each string of it, keys included, and each number, in order.
        pieces: The size of the pieces in which the text arrives; 0 if it arrives whole.
        category: The heading that it stands under in its file.
    """

    plain: Any
    labels: list[list[Label]]
    pieces: int
    category: str


def fill(form: str, rng: random.Random) -> str:
    """Make a token of a form such as `gh|p_|a36`: literals, and an alphabet with a number."""
    parts = []
    for part in form.split("|"):
        is_run = part[:1] in ALPHABETS and part[1:].isdigit()
        parts.append("".join(rng.choices(ALPHABETS[part[0]], k=int(part[1:]))) if is_run else part)
    token = "".join(parts)
    # A final hyphen or underscore is ambiguous before punctuation, also to a reader.
    return token[:-1] + rng.choice("aef0") if token[-1] in "-_" else token


def pem(rng: random.Random) -> str:
    """Make a private key in its armour."""
    line = rng.choice(["RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED "]) + "PRI" + "VATE KEY-----"
    return f"-----BEGIN {line}\n" + "\n".join(fill("b64", rng) for _ in range(6)) + f"\n-----END {line}"


class Maker:
    """Makes the texts of the corpus from what stands in its files."""

    def __init__(self) -> None:
        self.forms: dict[str, list[str]] = yaml.safe_load((FOLDER / "tokens.yaml").read_text(encoding="utf-8"))

    def secret(self, mark: str, rng: random.Random) -> tuple[str, str]:
        """Return the kind, or nothing if it is harmless, and the text that a mark stands for."""
        if mark.startswith("~"):
            return "", fill(mark[1:], rng)
        kind, has_value, value = mark.partition("=")
        if has_value:
            return kind, fill(value[1:], rng) if value.startswith("~") else value
        kind, _, written = kind.partition("|")
        kind, _, number = kind.partition(".")
        secret = pem(rng) if kind == "pem" else fill(self.forms[kind][int(number or 1) - 1], rng)
        escaped = json.dumps(secret)[1:-1]
        ways = {"": secret, "json": escaped, "json2": json.dumps(escaped)[1:-1], "indent": secret.replace("\n", "\n  ")}
        return kind, ways[written]

    def text(self, marked: str, rng: random.Random) -> tuple[str, list[Label]]:
        """Replace the marks of a text."""
        text, labels, at = "", [], 0
        for mark in MARK.finditer(marked):
            text += marked[at : mark.start()]
            kind, made = self.secret(mark[1], rng)
            if kind:
                labels.append(Label(kind, len(text), len(text) + len(made)))
            text += made
            at = mark.end()
        return text + marked[at:], labels

    def data(self, marked: Any, rng: random.Random, labels: list[list[Label]]) -> Any:
        """Replace the marks in all strings of plain data, and add the labels of each."""
        if isinstance(marked, dict) and marked.keys() == {"int"}:
            text, found = self.text(marked["int"], rng)
            labels.append(found)
            return int(text)
        if isinstance(marked, dict):
            return {self.data(key, rng, labels): self.data(item, rng, labels) for key, item in marked.items()}
        if isinstance(marked, list):
            return [self.data(item, rng, labels) for item in marked]
        if marked is None:
            return None
        text, found = self.text(str(marked), rng)
        labels.append(found)
        return text if isinstance(marked, str) else marked

    def case(self, marked: Any, category: str, rng: random.Random) -> Case:
        """Make one case of an entry of a file."""
        if isinstance(marked, dict) and "base64" in marked:
            inner, _ = self.text(marked["base64"], rng)
            marked = marked["inside"].replace("⟦⟧", f"⟦base64={base64.b64encode(inner.encode()).decode()}⟧")
        pieces = 0
        if isinstance(marked, dict) and "pieces" in marked:
            pieces, marked = marked["pieces"], marked["text"]
        labels: list[list[Label]] = []
        return Case(self.data(marked, rng, labels), labels, pieces, category)

    def cases(self, name: str) -> list[Case]:
        """Make all cases of a file; a text that holds a random run but no secret is made several times."""
        made: dict[str, Case] = {}
        for category, entries in yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")).items():
            for number, entry in enumerate(entries):
                for turn in range(MADE_OVER if name.startswith("harmless") else 1):
                    case = self.case(entry, category, random.Random(f"{name} {category} {number} {turn}"))
                    made.setdefault(repr(case.plain), case)
        return list(made.values())

    def planted(self, name: str) -> list[Case]:
        """Plant each form of each kind into the surroundings of a file, in turn."""
        around = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
        made, turn = [], 0
        for kind, forms in self.forms.items():
            for number in range(1, len(forms) + 1):
                places = [("plain", turn * PLAIN_PER_FORM + step) for step in range(PLAIN_PER_FORM)] + [("named", turn)]
                for category, place in places:
                    text = around[category][place % len(around[category])].replace("⟦token⟧", f"⟦{kind}.{number}⟧")
                    made.append(self.case(text, category, random.Random(f"{name} {kind} {number} {place}")))
                turn += 1
        return made

    def configured(self, name: str) -> tuple[list[Case], list[Case]]:
        """Plant the names of a file into the places of their conventions, in turn: secrets, and harmless values."""
        content = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
        both: tuple[list[Case], list[Case]] = ([], [])
        for cases, group, kind in zip(both, ("secrets", "harmless"), ("secret=", ""), strict=True):
            for convention, rows in content[group].items():
                places, turn = content["places"][convention], 0
                for word, value in [pair for row in rows for pair in zip(row[::2], row[1::2], strict=True)]:
                    for place in [places[(turn + step) % len(places)] for step in range(PLACES_PER_NAME)]:
                        number = "number=" if kind and '"NAME": VALUE' in str(place) else kind
                        text = _planted(place, word, f"⟦{number}~{value}⟧")
                        cases.append(self.case(text, f"{group} {convention}", random.Random(f"{name} {word} {turn}")))
                        turn += 1
        for cases, group in zip(both, ("texts", "harmless texts"), strict=True):
            for category, entries in content[group].items():
                for number, entry in enumerate(entries):
                    cases.append(self.case(entry, category, random.Random(f"{name} {category} {number}")))
        return both


def _planted(place: Any, name: str, value: str) -> Any:
    """Return a place with a name and a value in it."""
    if isinstance(place, dict):
        return {_planted(key, name, value): _planted(item, name, value) for key, item in place.items()}
    if isinstance(place, list):
        return [_planted(item, name, value) for item in place]
    return place.replace("NAME", name).replace("VALUE", value) if isinstance(place, str) else place


def halves(*names: str) -> dict[str, list[Case]]:
    """Return the cases of both halves of the corpus, by its name."""
    maker = Maker()
    make = {"surroundings": maker.planted}
    return {
        half: [case for name in names for case in make.get(name, maker.cases)(f"{name}{suffix}")]
        for half, suffix in (("known", ""), ("held out", "_held_out"))
        if all((FOLDER / f"{name}{suffix}.yaml").exists() for name in names)
    }


def grouped(name: str) -> dict[str, list[Case]]:
    """Return the cases of a file with secrets and harmless texts, by their group."""
    cases = Maker().cases(name)
    return {group: [case for case in cases if case.category == group] for group in ("secrets", "harmless")}


@pytest.fixture(scope="session")
def positives() -> dict[str, list[Case]]:
    """Texts with secrets, by the half of the corpus that they are in."""
    return halves("surroundings", "secrets")


@pytest.fixture(scope="session")
def negatives() -> dict[str, list[Case]]:
    """Texts without, by the half of the corpus that they are in."""
    return halves("harmless")


@pytest.fixture(scope="session")
def configured() -> dict[str, tuple[list[Case], list[Case]]]:
    """Texts with secrets under names of configurations, and texts without, by the half of the corpus."""
    return {half: Maker().configured(half) for half in ("configured", "configured_held_out")}


@pytest.fixture(scope="session")
def lines() -> dict[str, list[Case]]:
    """Lines with a secret, and lines without, as terminals, settings, programs and people write them."""
    return grouped("lines")


@pytest.fixture(scope="session")
def met() -> dict[str, list[Case]]:
    """Texts with a secret, and texts without, as agents met them in 2026."""
    return grouped("met")


@pytest.fixture(scope="session")
def families() -> dict[str, list[Case]]:
    """Lines of the families of secrets that agents meet, by the half of the corpus."""
    return {half: Maker().cases(half) for half in ("families", "families_held_out")}


@pytest.fixture
def redactor() -> Redactor:
    """A redactor with the built-in detectors."""
    return Redactor(KEY)
