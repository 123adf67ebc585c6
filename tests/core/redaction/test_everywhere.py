"""A secret that was found once in a run is replaced everywhere in it, and what holds for every text of the corpus."""

from __future__ import annotations

import asyncio
import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_core.redaction import Redactor
from agenttape_core.redaction.everywhere import is_telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUMBER, WORD = "1234567890", "Kx9tundra77"


@boundary("tool")
def login(name: str) -> dict[str, str]:
    """Give a number and a word away under the names of secrets."""
    return {"user": name, "session_token": NUMBER, "password": WORD}


@boundary("tool")
def lookup(key: str) -> Any:
    """Return what holds the secrets where nothing tells of them."""
    return {WORD: [key, int(NUMBER), f"see {WORD}!"], "note": f"line {NUMBER}"}


@boundary("chat")
def ask(prompt: str) -> str:
    """Answer anything."""
    return "yes"


def told_first() -> list[Any]:
    """Log in, then use what came back."""
    found = login("ada")
    return [ask("\n".join(f"{key}: {value}" for key, value in found.items())), ask(f"hello {found['password']}, go")]


def told_last() -> list[Any]:
    """Use the secrets before anything gives them away."""
    return [ask(f"hello {WORD}, go"), ask(f"x {NUMBER} y"), lookup("a")["note"], login("ada")["user"]]


@pytest.mark.parametrize("run", [told_first, told_last])
def test_no_secret_is_left_and_the_run_replays(tmp_path: Path, run: Callable[[], list[Any]]) -> None:
    """Texts, keys, numbers and requests hold no secret that the run shows elsewhere, and its replay finds them all."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        run()
    text = path.read_text(encoding="utf-8")
    assert NUMBER not in text
    assert WORD not in text
    with use_cassette(path, mode="none"):
        run()


def test_a_cassette_holds_the_fingerprints_of_what_it_holds(tmp_path: Path) -> None:
    """A replay that reads the secrets from the cassette finds the same calls."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        told_last()
    requests = [each.request["arguments"] for each in open_cassette(path).interactions() if each.kind == "chat"]
    with use_cassette(path, mode="none", on_unused="ignore"):
        for arguments in requests:
            assert ask(**arguments) == "yes"


@boundary("tool")
def auth(pin: object) -> str:
    """Take a secret that its name gives away."""
    return "yes"


@boundary("tool")
def echo(value: Any) -> Any:
    """Return the argument."""
    return value


def returns_the_same(path: Path, run: Callable[[], Any]) -> str:
    """Record a run, check that its replay returns exactly what was recorded, and return the cassette's text."""
    with use_cassette(path, mode="all"):
        recorded = run()
    with use_cassette(path, mode="none"):
        assert repr(run()) == repr(recorded)
    return path.read_text(encoding="utf-8")


def written(number: int) -> list[Any]:
    """Return a number as programs and people write it."""
    return [number, float(number), f"is it {number:,}?", f"x {number} y", f"x {number}.0 y", {"of": [number]}]


@pytest.mark.parametrize("number", [1234567890, 48291377, 482913, -48291377])
@pytest.mark.parametrize("login", [auth, lambda number: echo({"pin": number})])
def test_a_number_is_replaced_in_each_writing(tmp_path: Path, number: int, login: Callable[[int], object]) -> None:
    """A number is replaced as a fraction and with commas, too, and a replay returns each writing."""

    @boundary("tool")
    def total(day: str) -> Any:
        return written(number)

    first = returns_the_same(
        tmp_path / "first.yaml", lambda: [login(number), total("mon"), *map(echo, written(number))]
    )
    last = returns_the_same(tmp_path / "last.yaml", lambda: [*map(echo, written(number)), login(number)])
    for text in (first, last):
        assert str(number) not in text
        assert f"{number:,}" not in text


@pytest.mark.parametrize("number", [1234, 12345, 200000, 4829137748291377, 482913774829137712])
def test_a_number_returns_whatever_its_size(tmp_path: Path, number: int) -> None:
    """One that is short stays elsewhere, as does a fraction with more digits than it has exactly; both return."""

    @boundary("tool")
    def total(day: str) -> Any:
        return written(number)

    text = returns_the_same(tmp_path / "c.yaml", lambda: [auth(number), total("mon"), *map(echo, written(number))])
    assert (f"x {number} y" in text) == (number <= 200000)


WORTH = ["Kx7pQ2mZ9vL4", "482913", "48291377", "+49 170 4455667", "4539 1488 0343 6467", "hunter2x", "123-45-6789"]
COLUMNS = ["password", "pin", "session_token", "phone", "note", "user", "email", "iban"]
MARGINS = [
    "{}",
    "> {}",
    "+{}",
    " {}",
    "{n}: {}",
    "{n:6d}\t{}",
    "L{n}: {}",
    "web-1  | {}",
    '"{}"',
    "2024-05-06T13:50:{n:02d}Z {}",
]
SHAPES = ["{0}: {3}\n{1}: {4}", "{0}={3}", "{3}", "{0}: |\n  {3}", '{{\n "{0}": {4},\n "{1}": "{3}"\n}}',
          "{0},{1},{2}\n{3},{4},{5}\n{5},{3},{4}", "| {0} | {1} |\n|---|---|\n| {3} | {4} |", "│ {0} │ {3} │",
          "{3} is your security code"]  # fmt: skip
TEXTS = st.builds(
    lambda margin, shapes: "\n".join(
        margin.format(line, n=number)
        for number, line in enumerate("\n".join(shape.format(*parts) for shape, parts in shapes).split("\n"), 1)
    ),
    st.sampled_from(MARGINS),
    st.lists(
        st.tuples(
            st.sampled_from(SHAPES),
            st.tuples(*[st.sampled_from(COLUMNS)] * 3, *[st.sampled_from(WORTH)] * 3),
        ),
        min_size=1,
        max_size=3,
    ),
)


@given(text=TEXTS)
@example(text="@@ -1 +1,2 @@\n+password: Kx7pQ2mZ9vL4\n++49 170 4455667\n context")
@example(text="> user,password,pin\n> bob,Kx7pQ2mZ9vL4,482913\n> sue,Hx8kQ2mZ9v,739204\n")
@example(text="> | user | password | pin |\n> |---|---|---|\n> | bob | Kx7pQ2mZ9vL4 | 482913 |\n")
@example(text="user,password,pin\nbob,Kx7pQ2mZ9vL4,482913\nsue,Hx8kQ2mZ9v,739204\n")
@pytest.mark.slow
def test_texts_with_margins_and_tables_return(text: str) -> None:
    """A replay returns exactly the recorded quotation, diff, listing, log or table, whichever secrets are in it."""
    with TemporaryDirectory() as folder:
        returns_the_same(Path(folder) / "c.yaml", lambda: echo(text))


def test_a_secret_may_hold_half_a_character() -> None:
    """A secret that isn't valid Unicode is replaced everywhere, too."""
    redactor = Redactor("k")
    redactor.value({"password": "Kx9\ud800tundra77"})
    assert "tundra77" not in redactor.everywhere().value("hello Kx9\ud800tundra77, go")


@pytest.mark.parametrize("first", ["login", "ask"])
@pytest.mark.parametrize("then", ["login", "ask"])
def test_branches_may_come_in_another_order(tmp_path: Path, first: str, then: str) -> None:
    """A request matches, whichever of two branches comes first in the recording and in the replay."""
    path = tmp_path / "c.yaml"
    calls: dict[str, Callable[[], object]] = {
        "login": lambda: login("ada"),
        "ask": lambda: ask(f"I am {WORD} at {NUMBER}."),
    }

    def run(order: str) -> None:
        for name in sorted(calls, key=lambda name: name != order):
            calls[name]()

    with use_cassette(path, mode="all"):
        run(first)
    assert WORD not in path.read_text(encoding="utf-8")
    with use_cassette(path, mode="none"):
        run(then)


def test_threads_that_share_a_secret_replay(tmp_path: Path) -> None:
    """Of two threads, one gives a secret away and the other asks with it; each replay finds both calls."""
    path = tmp_path / "c.yaml"

    def run() -> None:
        with ThreadPoolExecutor(2) as pool:
            each = [pool.submit(login, "ada"), pool.submit(ask, f"I am {WORD}.")]
            assert [one.result() for one in each][1] == "yes"

    with use_cassette(path, mode="all"):
        run()
    for _ in range(3):
        with use_cassette(path, mode="none"):
            run()


@pytest.mark.parametrize("late", ["login", "ask"])
def test_parallel_tasks_may_come_in_another_order(tmp_path: Path, late: str) -> None:
    """A request matches, whichever of two tasks comes first in the replay."""
    path = tmp_path / "c.yaml"

    @boundary("tool")
    async def alogin() -> dict[str, str]:
        return {"password": WORD}

    @boundary("chat")
    async def aask(prompt: str) -> str:
        return "yes"

    async def run(order: str) -> None:
        async def one(name: str) -> None:
            await asyncio.sleep(0)
            if name == order:
                await asyncio.sleep(0)
            await (alogin() if name == "login" else aask(f"it is {WORD}, well"))

        await asyncio.gather(one("login"), one("ask"))

    with use_cassette(path, mode="all"):
        asyncio.run(run("ask"))
    with use_cassette(path, mode="none"):
        asyncio.run(run(late))


def test_a_secret_in_the_chunks_of_a_stream(tmp_path: Path) -> None:
    """A stream that says a secret in pieces, where nothing tells of it, holds its pseudonym."""
    path = tmp_path / "c.yaml"

    @boundary("chat")
    def stream(prompt: str) -> Iterator[str]:
        yield from ("it is ", WORD[:4], WORD[4:], ", well")

    with use_cassette(path, mode="all"):
        list(stream("which?"))
        login("ada")
    assert WORD[4:] not in path.read_text(encoding="utf-8")
    with use_cassette(path, mode="none"):
        assert "".join(stream("which?")).startswith("it is ")
        login("ada")


def test_what_was_recorded_before_is_replaced_too(tmp_path: Path) -> None:
    """A run that adds to a cassette, and gives a secret away, leaves it nowhere in the file."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        ask(f"hello {WORD}, go")
    assert WORD in path.read_text(encoding="utf-8")
    with use_cassette(path, mode="new_episodes"):
        ask(f"hello {WORD}, go")
        login("ada")
    assert WORD not in path.read_text(encoding="utf-8")
    with use_cassette(path, mode="none"):
        ask(f"hello {WORD}, go")
        login("ada")


def test_another_secret_is_a_miss(tmp_path: Path) -> None:
    """A request with another text in the place of a secret has no recording."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        told_last()
    with pytest.raises(CassetteMissError), use_cassette(path, mode="none", on_unused="ignore"):
        ask("hello Kx9tundra78, go")


def test_tags_and_metadata_hold_none(tmp_path: Path) -> None:
    """The tags of a session have the pseudonym of a secret that a call gives away."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all", tags=[f"run-{WORD}", "nightly"]):
        login("ada")
    tags = open_cassette(path).header.tags
    assert "nightly" in tags
    assert WORD not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("secret", ["Paris", "true", "20000", "200000", "not available", "hunter", "1111111"])
def test_what_may_be_there_by_chance_stays(secret: str) -> None:
    """Words, sentences and round numbers are no telling secrets: they're replaced only where a name gives them away."""
    assert not is_telling(secret)


@pytest.mark.parametrize("secret", ["hunter2", "1234567890", "482913", "correct-horse-battery", "Zebra-4471"])
def test_what_is_special_is_telling(secret: str) -> None:
    """Letters with digits, long words and varied numbers are nowhere by chance."""
    assert is_telling(secret)


JOINTS = ["", " ", "\n", ", ", '", "', "\\n", ": ", "=", '{"password": "', "'", "&", "/"]


@pytest.fixture(scope="module")
def corpus(positives: dict[str, list[Any]], negatives: dict[str, list[Any]]) -> list[Any]:
    """All texts and data of the corpus."""
    return [case.plain for half in (*positives.values(), *negatives.values()) for case in half]


@pytest.fixture(scope="module")
def texts(corpus: list[Any]) -> list[str]:
    """All texts of the corpus."""
    return [plain for plain in corpus if isinstance(plain, str)]


@pytest.mark.slow
def test_redacted_is_redacted(corpus: list[Any]) -> None:
    """Redacting what is redacted changes nothing, for a redactor that has seen none of it."""
    for plain in corpus:
        redacted = Redactor("k").value(plain)
        assert Redactor("k").value(redacted) == redacted


@pytest.mark.slow
def test_rehydration_restores(corpus: list[Any]) -> None:
    """Who has seen the secrets gets exactly the original back; nobody's data is changed in place."""
    for plain in corpus:
        redactor, before = Redactor("k"), copy.deepcopy(plain)
        redacted = redactor.value(plain)
        assert redactor.rehydrate(redacted) == before == plain
        assert (redacted is plain) == (redacted == plain)


@pytest.mark.slow
def test_streams_give_what_the_whole_text_gives(texts: list[str]) -> None:
    """However a text is cut, its redacted chunks are the redacted text, cut."""

    def pieces_of(text: str, rng: Random) -> list[str]:
        """Cut a text at random places."""
        cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(1, 8)))
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    rng = Random(5)
    for text in texts:
        redactor = Redactor("k")
        pieces = pieces_of(text, rng)
        whole = redactor.text(text)
        chunks = redactor.chunks([{"delta": {"text": piece}} for piece in pieces])
        redacted = [chunk["delta"]["text"] for chunk in chunks]
        assert "".join(redacted) == whole
        assert redactor.rehydrate(whole) == text


@pytest.mark.slow
def test_long_texts(texts: list[str]) -> None:
    """A secret within a long text splits it in parts, in which nothing is left to be found, and all come back."""
    rng = Random(7)
    for _ in range(40):
        parts = [part for text in rng.choices(texts, k=8) for part in (text, "a line of words " * rng.randrange(900))]
        long = rng.choice(JOINTS).join(parts)
        redactor = Redactor("k")
        redacted = redactor.text(long)
        assert Redactor("k").text(redacted) == redacted
        assert redactor.rehydrate(redacted) == long


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_texts_put_together(texts: list[str], data: st.DataObject) -> None:
    """Put together at random, redacted texts stay redacted and come back."""
    parts = data.draw(st.lists(st.sampled_from(texts), min_size=2, max_size=3))
    joints = data.draw(st.lists(st.sampled_from(JOINTS), min_size=3, max_size=3))
    text = "".join(part + joint for part, joint in zip(parts, joints, strict=False))
    cut = data.draw(st.integers(min_value=0, max_value=len(text)))
    redactor = Redactor("k")
    redacted = redactor.text(text)
    assert Redactor("k").text(redacted) == redacted
    assert redactor.rehydrate(redacted) == text
    if not text[cut:].startswith(text[:cut]):  # that would be a stream that repeats all text so far
        assert "".join(redactor.chunks([text[:cut], text[cut:]])) == redacted
