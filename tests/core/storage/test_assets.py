"""Large binary parts: beside the cassette while it is closed, where they were when it is read."""

from __future__ import annotations

import base64
import errno
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteFormatError, CassetteWriteError
from agenttape_core.format import limits
from agenttape_core.format.assets import file_name
from agenttape_core.integration import Boundary, current_session, intercept
from agenttape_core.schema import Header, Interaction, Outcome, RecordedError, Timing
from agenttape_core.storage import MIN_ASSET_BYTES, Journal, open_cassette, recover, write_cassette

MakeInteraction = Callable[..., Interaction]
SUFFIXES = pytest.mark.parametrize("suffix", [".yaml", ".jsonl", ".yaml.gz"])
HEADER = Header(name="tape")
posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes as POSIX has them")


def picture(seed: int = 0, size: int = MIN_ASSET_BYTES) -> bytes:
    """Binary data with the signature of a PNG file."""
    return (b"\x89PNG\r\n\x1a\n" + bytes((n * n + seed) % 251 for n in range(size)))[:size]


def text_of(data: bytes) -> str:
    """The data in base64."""
    return base64.b64encode(data).decode()


def returned(value: Any) -> Outcome:
    """The outcome of a call that gave this plain data."""
    return Outcome(status="returned", value=value)


def assets_of(path: Path) -> dict[str, bytes]:
    """The files in the folder of a cassette's assets, by name."""
    folder = path.with_name(f"{path.name}.assets")
    return {file.name: file.read_bytes() for file in folder.iterdir()} if folder.exists() else {}


def only_asset(path: Path) -> Path:
    """The one asset of a cassette."""
    (file,) = path.with_name(f"{path.name}.assets").iterdir()
    return file


@SUFFIXES
def test_large_binary_parts_are_files_beside_the_cassette(tmp_path: Path, make: MakeInteraction, suffix: str) -> None:
    """Bytes, base64 and data URLs, anywhere in request or outcome, come back; the files are what they stand for."""
    one, two, three, four = (picture(seed) for seed in range(4))
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text_of(two)}"}}
    error = RecordedError(type="a:B", message="no", attributes={"body": {"$bytearray": text_of(four)}})
    recorded = [
        make(
            1,
            request={"file": text_of(one), "messages": [{"role": "human", "content": [image]}]},
            outcome=Outcome(status="streamed", chunks=["a", {"$bytes": text_of(three)}], ended="raised", error=error),
        ),
        make(2),
    ]
    path = tmp_path / f"tape{suffix}"

    write_cassette(path, HEADER, recorded)

    assert assets_of(path) == {file_name(data): data for data in (one, two, three, four)}
    assert all(name.endswith(".png") for name in assets_of(path))
    assert path.stat().st_size < 3000
    cassette = open_cassette(path)
    assert list(cassette.interactions()) == recorded
    assert cassette.outcome(1) == recorded[0].outcome


@pytest.mark.parametrize(
    "text",
    [
        text_of(picture(size=MIN_ASSET_BYTES - 1)),
        text_of(picture()) + "\n",
        text_of(picture(size=MIN_ASSET_BYTES + 1))[:-3] + "B==",  # the last letter has bits that say nothing
        text_of(picture())[:-1] + "ü",
        "data:image/png," + text_of(picture()),
        "a sentence of words " * 4000,
    ],
    ids=["small", "newline", "not canonical", "not ASCII", "no base64 URL", "prose"],
)
def test_what_could_not_be_made_again_stays_where_it_is(tmp_path: Path, make: MakeInteraction, text: str) -> None:
    """Only text that decoding and encoding gives back letter for letter is taken out, and no small one."""
    path = tmp_path / "tape.yaml"
    recorded = [make(1, outcome=returned(text))]

    write_cassette(path, HEADER, recorded)

    assert assets_of(path) == {}
    assert path.read_text().startswith("agenttape: 1\n")
    assert list(open_cassette(path).interactions()) == recorded


LOOKALIKES = st.recursive(
    st.sampled_from(["x", 1, None, text_of(picture())]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["$asset", "$$asset", "plain", "file", "a"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@example(value={"a": {"$asset": {"plain": 1}}}, request={"$asset": {"$asset": None}})
@given(value=LOOKALIKES, request=st.dictionaries(st.sampled_from(["$asset", "messages", "b"]), LOOKALIKES, max_size=2))
def test_data_that_looks_like_a_reference_is_not_taken_for_one(value: Any, request: Any, make: MakeInteraction) -> None:
    """Whatever the data is called, it comes back as it was, beside real assets and without any."""
    lookalike = make(1, request=request, outcome=returned(value))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.yaml", "a.jsonl"):
            path = Path(folder) / name
            for recorded in ([lookalike], [lookalike, make(2, outcome=returned(text_of(picture())))]):
                write_cassette(path, HEADER, recorded)
                assert list(open_cassette(path).interactions()) == recorded


def test_an_image_in_a_history_stands_in_it_once(tmp_path: Path, make: MakeInteraction) -> None:
    """A request that continues one with an image refers to no asset of its own."""
    history: list[Any] = [{"role": "human", "content": {"$bytes": text_of(picture())}}]
    recorded = []
    for number in range(1, 5):
        recorded.append(make(number, request={"messages": list(history)}))
        history.append({"role": "ai", "content": f"answer {number}"})
    path = tmp_path / "tape.yaml"

    write_cassette(path, HEADER, recorded)

    assert path.read_text().count("$asset") == 1
    assert open_cassette(path).interaction(4) == recorded[3]


def test_assets_are_read_when_they_are_asked_for(tmp_path: Path, make: MakeInteraction) -> None:
    """A missing asset hurts neither the opening of the cassette nor other interactions."""
    path = tmp_path / "tape.yaml"
    write_cassette(path, HEADER, [make(1), make(2, outcome=returned({"$bytes": text_of(picture())}))])
    only_asset(path).unlink()

    cassette = open_cassette(path)

    assert cassette.interaction(1) == make(1)
    with pytest.raises(CassetteFormatError, match=r"asset tape\.yaml\.assets/[0-9a-f]{64}\.png is missing") as caught:
        cassette.outcome(2)
    assert caught.value.path == path
    assert caught.value.line == path.read_text().splitlines().index("interaction: 2") + 1


def _link_out(asset: Path) -> None:
    outside = asset.parents[1] / "outside"
    asset.rename(outside)
    asset.symlink_to(outside)


def _link_folder(asset: Path) -> None:
    outside = asset.parents[1] / "outside"
    asset.parent.rename(outside)
    asset.parent.symlink_to(outside)


def _pipe(asset: Path) -> None:
    asset.unlink()
    os.mkfifo(asset)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda asset: asset.write_bytes(picture(1)), "was changed"),
        (lambda asset: asset.write_bytes(picture()[:-1]), "was changed"),
        (lambda asset: asset.write_bytes(picture() + b"!"), "was changed"),
        (lambda asset: asset.unlink(), "is missing"),
        pytest.param(_link_out, "symbolic link", marks=posix),
        pytest.param(_link_folder, "symbolic link", marks=posix),
        pytest.param(_pipe, "no regular file", marks=posix),
    ],
    ids=["changed", "truncated", "longer", "missing", "link", "linked folder", "pipe"],
)
def test_a_damaged_asset_is_refused(
    tmp_path: Path, make: MakeInteraction, damage: Callable[[Path], None], says: str
) -> None:
    """What is replayed is what was recorded, from the cassette's own folder, or nothing."""
    path = tmp_path / "tape.jsonl"
    write_cassette(path, HEADER, [make(1, outcome=returned({"$bytes": text_of(picture())}))])
    damage(only_asset(path))

    with pytest.raises(CassetteFormatError, match=says) as caught:
        open_cassette(path).outcome(1)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ('"file":"', '"file":"../', "not named by 64 hex digits"),
        ('"file":"', '"file":"/', "not named by 64 hex digits"),
        ('.png"', '.png/../x"', "not named by 64 hex digits"),
        ('.png"', '.PNG"', "not named by 64 hex digits"),
        ('.png"', '\\n"', "not named by 64 hex digits"),
        ('"file":"', '"file":1,"x":"', "must have `file`"),
        ('"as":"base64"', '"as":"base32"', "wrong type"),
        ('"as":"base64"', '"as":"base64","before":1', "wrong type"),
        ('"as":"base64"', '"as":"base64","more":1', "must have `file`"),
        (f'"bytes":{MIN_ASSET_BYTES}', '"bytes":-1', "wrong type"),
        (f'"bytes":{MIN_ASSET_BYTES}', '"bytes":true', "wrong type"),
        (f'"bytes":{MIN_ASSET_BYTES}', '"bytes":16385', "was changed"),
        (f'"bytes":{MIN_ASSET_BYTES}', '"bytes":9999999999999', "larger than the limit"),
        (f'"bytes":{MIN_ASSET_BYTES},', "", "must have `file`"),
        ('"$asset":{', '"$asset":[{', "must have `file`"),
    ],
)
def test_a_malformed_reference_is_refused(tmp_path: Path, make: MakeInteraction, was: str, now: str, says: str) -> None:
    """A name that leads elsewhere, a wrong size or an unknown key is an error with the line, and opens no file."""
    path = tmp_path / "tape.jsonl"
    write_cassette(path, HEADER, [make(1, outcome=returned({"image": text_of(picture())}))])
    text = path.read_text()
    assert was in text
    text = text.replace(was, now)
    path.write_text(text.replace('"base64"}', '"base64"}]') if "[" in now else text)

    with pytest.raises(CassetteFormatError, match=says) as caught:
        open_cassette(path).outcome(1)
    assert caught.value.line == 2


def test_the_assets_of_a_record_are_limited_together(
    tmp_path: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file that refers to one asset a thousand times does not fill the memory; nor is such a one written."""
    path = tmp_path / "tape.jsonl"
    write_cassette(path, HEADER, [make(1, outcome=returned([text_of(picture())] * 3))])
    monkeypatch.setattr(limits, "MAX_RECORD_BYTES", 2 * MIN_ASSET_BYTES)

    with pytest.raises(CassetteFormatError, match="assets of the record are larger than the limit"):
        open_cassette(path).outcome(1)
    monkeypatch.setattr(limits, "MAX_RECORD_BYTES", MIN_ASSET_BYTES)
    with pytest.raises(CassetteWriteError, match="larger than the limit"):
        write_cassette(tmp_path / "other.jsonl", HEADER, [make(1, outcome=returned([text_of(picture())] * 2))])


def test_a_part_at_the_deepest_level_stays_where_it_is(tmp_path: Path, make: MakeInteraction) -> None:
    """A reference is deeper than the text it stands for: nothing is written that is too deep to be read."""
    value: Any = text_of(picture())
    for _ in range(limits.MAX_DEPTH - 2):
        value = [value]
    recorded = [make(1, outcome=returned(value)), make(2, outcome=returned(text_of(picture(1))))]
    path = tmp_path / "tape.jsonl"

    write_cassette(path, HEADER, recorded)

    assert list(assets_of(path)) == [file_name(picture(1))]
    assert list(open_cassette(path).interactions()) == recorded


@SUFFIXES
def test_a_new_recording_sweeps_the_assets_of_the_old_one(tmp_path: Path, make: MakeInteraction, suffix: str) -> None:
    """Unused assets and what a crash left of one are removed, what is not ours stays, an empty folder goes."""
    path = tmp_path / f"tape{suffix}"
    write_cassette(path, HEADER, [make(1, outcome=returned([text_of(picture(n)) for n in range(3)]))])
    folder = path.with_name(f"{path.name}.assets")
    (folder / f".{file_name(picture())}.4711-0011aabb.tmp").write_bytes(b"half of it")
    kept = folder / file_name(picture(1))
    before = kept.stat()

    write_cassette(path, HEADER, [make(1, outcome=returned([text_of(picture(1))]))])

    assert assets_of(path) == {file_name(picture(1)): picture(1)}
    assert kept.stat().st_ino == before.st_ino
    (folder / "notes.txt").write_text("mine")
    write_cassette(path, HEADER, [make(1)])
    assert list(assets_of(path)) == ["notes.txt"]
    (folder / "notes.txt").unlink()
    write_cassette(path, HEADER, [make(1)])
    assert not folder.exists()


def test_two_cassettes_never_share_a_folder(tmp_path: Path, make: MakeInteraction) -> None:
    """Cassettes that differ in their suffix only leave each other's assets alone."""
    paths = [tmp_path / name for name in ("tape.yaml", "tape.jsonl", "tape.yaml.gz")]
    for number, path in enumerate(paths):
        write_cassette(path, HEADER, [make(1, outcome=returned(text_of(picture(number))))])

    assert [open_cassette(path).outcome(1).value for path in paths] == [text_of(picture(n)) for n in range(3)]


@pytest.mark.parametrize("keep", [True, False])
def test_a_recording_that_is_given_up_leaves_the_old_assets(tmp_path: Path, make: MakeInteraction, keep: bool) -> None:
    """Until a recording is committed its binary parts are in the journal only, from which they are recovered."""
    path = tmp_path / "tape.yaml"
    old = make(1, outcome=returned(text_of(picture(1))))
    new = make(1, outcome=returned(text_of(picture(2))))
    write_cassette(path, HEADER, [old])

    journal = Journal(path, HEADER)
    journal.append(new, Timing(duration_ms=1.0), (1,))
    left = journal.abandon(keep=keep)

    assert list(open_cassette(path).interactions()) == [old]
    if left is not None:
        assert list(open_cassette(recover(left)).interactions()) == [new]
        assert list(open_cassette(path).interactions()) == [old]


def test_a_write_that_fails_leaves_the_old_assets(
    tmp_path: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The assets of the old cassette are there as long as it is."""
    path = tmp_path / "tape.yaml"
    old = make(1, outcome=returned(text_of(picture(1))))
    write_cassette(path, HEADER, [old])
    rename = Path.replace

    def refuse_the_cassette(self: Path, target: Path) -> Path:
        if Path(target) == path:
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", refuse_the_cassette)
    with pytest.raises(CassetteWriteError, match="Input/output error"):
        write_cassette(path, HEADER, [make(1, outcome=returned(text_of(picture(2))))])

    assert list(open_cassette(path).interactions()) == [old]


@posix
def test_nothing_is_written_or_removed_through_a_linked_folder(tmp_path: Path, make: MakeInteraction) -> None:
    """A folder of assets that is a link to another place is refused on writing too, and not swept."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    precious = elsewhere / file_name(picture(7))
    precious.write_bytes(picture(7))
    path = tmp_path / "tape.yaml"
    (tmp_path / "tape.yaml.assets").symlink_to(elsewhere)

    with pytest.raises(CassetteWriteError, match="symbolic link"):
        write_cassette(path, HEADER, [make(1, outcome=returned(text_of(picture(1))))])
    write_cassette(path, HEADER, [make(1)])

    assert list(elsewhere.iterdir()) == [precious]


@posix
def test_a_linked_cassette_has_the_assets_of_the_real_one(tmp_path: Path, make: MakeInteraction) -> None:
    """A link to a cassette stays a link, and its assets are beside what it leads to."""
    (tmp_path / "deep").mkdir()
    real, link = tmp_path / "deep" / "real.yaml", tmp_path / "link.yaml"
    link.symlink_to(real)
    recorded = [make(1, outcome=returned(text_of(picture())))]

    write_cassette(link, HEADER, recorded)

    assert assets_of(real) == {file_name(picture()): picture()}
    assert list(open_cassette(link).interactions()) == list(open_cassette(real).interactions()) == recorded


KEY = "sk-proj-" + "aB3dE5fG7hJ9kL1m" * 3


@pytest.mark.parametrize("padding", [b" and words around it" * 2000, bytes(range(256)) * 100])
def test_a_secret_inside_a_part_is_not_laid_open(tmp_path: Path, make: MakeInteraction, padding: bytes) -> None:
    """Data in which a secret can be read once it is decoded stays as it came: in base64, inside the cassette."""
    recorded = [make(1, outcome=returned(f"data:text/plain;base64,{text_of(KEY.encode() + b' ' + padding)}"))]
    path = tmp_path / "tape.yaml"

    write_cassette(path, HEADER, recorded)

    assert assets_of(path) == {}
    assert list(open_cassette(path).interactions()) == recorded


def test_a_session_keeps_binary_values_apart_and_serves_them(tmp_path: Path) -> None:
    """From record to replay: the same bytes, redacted before they are written, and the request still matches."""
    body = b"notes with a key " + KEY.encode() + b" in them" + bytes(MIN_ASSET_BYTES)

    def fetch(data: bytes) -> dict[str, Any]:
        session_call = current_session().cross(Boundary("tool"), "fetch", {"data": data})
        return intercept(session_call, lambda: {"copy": data, "screen": picture()})

    path = tmp_path / "tape.yaml"
    with use_cassette(path, mode="once"):
        fetch(body)
    with use_cassette(path):
        replayed = fetch(body)

    assert replayed == {"copy": body, "screen": picture()}
    written = assets_of(path)
    assert len(written) == 2
    assert not [name for name, data in written.items() if KEY.encode() in data]
