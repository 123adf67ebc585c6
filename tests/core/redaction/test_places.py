"""Paths have one pseudonym, and each run gets its own back; secrets in fields of pages and below a denied name."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.redaction import PSEUDONYM, Redactor, Rule
from agenttape_core.redaction.path_placeholders import can_be_place

KEY = "k"


def redactor(number: int, *rules: Rule) -> Redactor:
    """Return the redactor of a run in folders of its own."""
    base = f"/tmp/pytest-of-me/pytest-{number}"
    return Redactor(KEY, rules=rules, places={"basetemp": base, "tmp_path": f"{base}/test_it0"})


def test_one_pseudonym_for_all_runs() -> None:
    """A text about the folders of two runs is one text redacted, wherever it stands, and each gets its own back."""

    def asked(number: int) -> list[object]:
        base = f"/tmp/pytest-of-me/pytest-{number}"
        texts = [f"{base}/test_it0/a.txt", f"in {base}/data1.", json.dumps({"p": f"{base}/test_it0"})]
        return [*texts, {f"{base}/test_it0": f"a{base}"}]

    redacted = redactor(1).value(asked(1))
    assert redacted == redactor(22).value(asked(22))
    assert "pytest-" not in str(redacted)
    assert redactor(22).rehydrate(redacted) == asked(22)  # also before any request held them
    assert redactor(1).value(redacted) == redacted
    secret = "sk-proj-" + "a1B2" * 12
    both = redactor(22).value([secret, asked(22)])
    assert redactor(22).with_places(both) == [redactor(22).text(secret), asked(22)]


def test_only_whole_names() -> None:
    """A folder whose name only begins alike is another one, and a longer place wins over a shorter one."""
    text = "/tmp/pytest-of-me/pytest-12 /tmp/pytest-of-me/pytest-1/test_it01"
    assert redactor(1).text(text).startswith("/tmp/pytest-of-me/pytest-12 [REDACTED:basetemp:")
    assert redactor(1).text(text).endswith("/test_it01")


def test_a_rule_and_a_switch_win() -> None:
    """The user's rules come first, and without redaction nothing is replaced."""
    path = "/tmp/pytest-of-me/pytest-1/test_it0"
    assert redactor(1, Rule("mine", literal=path)).text(path).startswith("[REDACTED:mine:")
    off = Redactor(KEY, enabled=False, places={"tmp_path": path})
    assert off.rehydrate(off.value([path])) == [path]


HOUSES = [
    {"home": "/home/ann", "project_root": "/home/ann/work/shop", "tmp_path": "/home/ann/work/shop/.tmp/test_it0"},
    {"home": "/home/ann", "project_root": "/app", "cwd": "/mnt/disk 2/run"},
    {"home": "/Users/Bob Lee", "project_root": "/Users/Bob Lee/shop", "cwd": "/tmp/über/x", "basetemp": "/tmp/p-1/gw0"},
]
WORDS = st.one_of(
    st.sampled_from(
        [" ", "/", ".", ":", "file://", "sqlite:///", "x", "\n", '"', "'", "\\n", "%2F", "%20", "-", "C:", "="]
    ),
    st.text(max_size=3),
)


@given(data=st.data(), house=st.sampled_from(HOUSES))
def test_round_trip(data: st.DataObject, house: dict[str, str]) -> None:
    """Whatever is around a place and however it is written, redacting twice is redacting once, and it is put back."""
    one = Redactor(KEY, places=house)
    forms = (str, quote, json.dumps, lambda path: quote(path, safe=""), lambda path: repr(PurePosixPath(path)))
    texts = [form(path) for path in house.values() for form in forms]
    pieces = data.draw(st.lists(st.one_of(WORDS, st.sampled_from(texts)), max_size=8))
    text = "".join(pieces)
    plain = {"a": [text, json.dumps({"p": text})], text: {"$PosixPath": text}}
    redacted = one.value(plain)
    assert one.value(redacted) == redacted
    assert one.rehydrate(redacted) == plain


@pytest.mark.parametrize("name", ["home", "project_root", "cwd"])
def test_one_text_in_all_runs(name: str) -> None:
    """A text about a place is one text redacted wherever the place is, and each run gets its own back."""
    written = [
        "{}/a.txt",
        "see {}.",
        "({})",
        '{{"path": "{}/x"}}',
        "file://{}/a.txt",
        "sqlite:///{}/db",
        'File "{}/app.py", line 3, in main',
        "PATH=/usr/bin:{}/bin",
        "PosixPath('{}')",
        "+{}/added",
        "\\n{}/x",
        "- {}\n- b",
        "-I{}/include",
    ]

    runs = [Redactor(KEY, places={name: path}) for path in ("/home/ann", "/home/ann/work", "/srv/x/y.z-1")]
    texts = [[form.format(run.places.paths[name]) for form in written] for run in runs]
    redacted = [run.value(own) for run, own in zip(runs, texts, strict=True)]
    assert redacted[0] == redacted[1] == redacted[2]
    assert all(PSEUDONYM.search(text) for text in redacted[0])
    assert [run.rehydrate(redacted[0]) for run in runs] == texts


@pytest.mark.parametrize("text", ["**{}/a**", "_{}_", "路径{}。", "在{}里"])
def test_paths_of_several_components(text: str) -> None:
    """In italics, and in scripts without blanks, a path is found that has several components: no glob is like it."""
    ann, bob = (Redactor(KEY, places={"home": path}) for path in ("/home/ann", "/home/bob"))
    assert bob.rehydrate(ann.text(text.format("/home/ann"))) == text.format("/home/bob")
    assert Redactor(KEY, places={"project_root": "/app"}).text(text.format("/app")) == text.format("/app")


def test_blanks_in_urls() -> None:
    """A `file:` URL holds a place with its blanks escaped, also if the recording had none."""
    ann, bob = (Redactor(KEY, places={"home": path}) for path in ("/home/ann", "/home/bob lee"))
    redacted = ann.text("file:///home/ann/a.txt and /home/ann/a.txt")
    assert bob.rehydrate(redacted) == "file:///home/bob%20lee/a.txt and /home/bob lee/a.txt"
    assert bob.text("file:///home/bob%20lee/a.txt and /home/bob lee/a.txt") == redacted


@pytest.mark.parametrize("text", [
    "/home/annfs/x", "/home/ann-2",
    "/home/ann.d", "/mnt/home/ann/x", "a/home/ann", "http://host/home/ann/x", "C:/home/ann/x", r"C:\home\ann\x",
    "./home/ann",
    "${BASE}/home/ann", "$HOME/home/ann", "~/home/ann", "//home/ann", "/home/ann%20x", "https://x.org/a?next=x/home/ann",
    r"\\host\home\ann",
    "/home/ann\\ x",
])  # fmt: skip
def test_other_paths_stay(text: str) -> None:
    """A path that only holds the letters of a place, a route of a URL and a Windows path are left alone."""
    found = Redactor(KEY, places={"home": "/home/ann"}).text(text)
    assert found == text


@pytest.mark.parametrize(("path", "can"), [
    ("/", False), ("", False), ("/tmp", False), ("/home", False), ("/usr/lib", False), ("relative/x", False),
    ('/a"b', False), ("/a\nb", False), ("C:\\Users\\ann", False), ("/app", True), ("/home/ann", True),
    ("/a b/ü", True), ("/a\udcff", False),
])  # fmt: skip
def test_general_folders(path: str, *, can: bool) -> None:
    """A folder that each machine has, or that cannot stand in any text, is no place."""
    assert can_be_place(path) is can


def test_a_secret_that_holds_a_place() -> None:
    """What stands under a denied name and holds a place has one pseudonym in all runs."""
    made = [
        Redactor(KEY, places={"home": home}).value({"api_key": f"{home}/key"}) for home in ("/home/ann", "/home/bob")
    ]
    assert made[0] == made[1]
    assert "key" not in made[0]["api_key"].partition(":")[2]


def test_split_between_chunks() -> None:
    """A place that a model streams in pieces is one all the same."""
    ann, bob = (Redactor(KEY, places={"home": path}) for path in ("/home/ann", "/home/bob"))
    redacted = ann.chunks(["in /ho", "me/a", "nn/x", " and so"])
    assert "ann" not in "".join(redacted)
    assert "".join(bob.rehydrate_chunks(redacted)) == "in /home/bob/x and so"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('<input value="hunter2xyz" name=password>', "hunter2xyz"),
        ("<input value=hunter2xyz name='password'>", "hunter2xyz"),
        ('<INPUT NAME="csrf_token" TYPE=hidden\n  VALUE="abcDEF123456" />', "abcDEF123456"),
        ("<input type=password id=x value='correct horse'>", "correct horse"),
        ('<meta name="csrf-token" content="abcDEF123456">', "abcDEF123456"),
        (json.dumps('<input value="hunter2xyz" name="password">'), "hunter2xyz"),
        ("password:\n  value: hunter2xyz\n", "hunter2xyz"),
        ("db:\n  password:  # both\n    old: first99\n    new: 'x99yz!'\n", "x99yz!"),
        ("users:\n- api_keys:\n  - hunter2xyz\n  - other99\n", "other99"),
        ("tokens:\n  access_token:\n    type: bearer\n    value: abc123def456\n", "abc123def456"),
        (json.dumps("db:\n  password:\n    old: hunter2xyz\n"), "hunter2xyz"),
        ("pw:\n  old: hunter2xyz\n", "hunter2xyz"),
        ("**pw:** hunter2xyz", "hunter2xyz"),
        ("cvv=123&month=7", "123"),
        ("password:\n  type: string\n  description: of the login\n  default: hunter2xyz\n", "hunter2xyz"),
    ],
)
def test_found(redactor: Redactor, text: str, secret: str) -> None:
    """A value is found in whatever order and with whatever quotes a page or a document of YAML has it."""
    redacted = redactor.text(text)
    assert secret not in redacted
    assert Redactor(redactor.key).text(redacted) == redacted
    assert redactor.rehydrate(redacted) == text


@pytest.mark.parametrize(
    "text",
    [
        '<input name="password" placeholder="your password" value="">',
        '<input type="text" name="city" value="Paris"><label for=password>Password</label>',
        '<meta name="keywords" content="a, b"><meta name="password-policy" content="8 letters">',
        "if password:\n    return foo99bar\n",
        "def f(\n    token:\n    x1: int = 3)\n",
        "password:\n  type: string\n  minLength: 8\n  description: of the login\n",
        "secrets:\n  db_password:\n    file: ./db_password.txt\n",
        "secrets:\n  GH_TOKEN:\n    required: true\n",
        "token:\n\n  Not99 below, as a line is empty.\n",
        "password:\nuser: bob99\n",
        "DB password:\n  see: page99 of the manual\n",
    ],
)
def test_left_alone(redactor: Redactor, text: str) -> None:
    """Pages without values, code, schemas, references and what is not below the name stay as they are."""
    assert redactor.text(text) is text
