"""The merge driver that git runs for cassettes."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from agenttape_core.errors import AgentTapeError
from agenttape_core.schema import Header
from agenttape_core.storage import Cassette, pieces_of, read_cassette
from agenttape_core.storage.files import file_kind, pack
from agenttape_core.tools.git.merging import Merged, Record, merged

CLEAN, CONFLICTS, UNABLE = 0, 1, 3


def merge_files(base: Path, ours: Path, theirs: Path, *, marker: int, name: str) -> tuple[int, str]:
    """Merge three files as git's merge drivers do: into ours.

    Args:
        base: What both sides were made of; empty if both added the file.
        ours: Our side, and where the result is written.
        theirs: Their side.
        marker: How long the markers of conflicts are.
        name: The path of the file in the repository, whose suffix says how it is written.

    Returns:
        `CLEAN`; `CONFLICTS`, where the file has markers in it; or `UNABLE`, where it is as it was. And what to tell the
        user.
    """
    try:
        target = Path(name)
        result = merged(_read(base, "the common version") if base.stat().st_size else None,
                        _read(ours, "our version"), _read(theirs, "their version"))  # fmt: skip
        if result is None:
            return UNABLE, f"{name}: the two recordings do not fit together; take one side, or record it anew"
        data = _conflicting(target, result, marker) if result.conflicts else _whole(target, result)
    except AgentTapeError as error:
        return UNABLE, f"{name}: not merged by record: {error}"
    ours.write_bytes(data)
    return (CONFLICTS, _told(name, result)) if result.conflicts else (CLEAN, "")


def _read(path: Path, called: str) -> Cassette:
    with path.open("rb") as stream:
        return read_cassette(stream, name=called, attached=False)


def _whole(target: Path, result: Merged) -> bytes:
    """Return the file of a merge without conflicts, after it was read once."""
    text = b"".join(pieces_of(target, result.header, [record for slot in result.slots for record in slot.records]))
    for _ in Cassette(target, text, attached=False).records():
        pass
    return pack(target, text)


def _conflicting(target: Path, result: Merged, marker: int) -> bytes:
    """Return a file in which both sides stand, each record whole: with one of them removed it is a cassette again."""
    head, *_, end = pieces_of(target, result.header, [slot.records[0] for slot in result.slots], whole=True)
    pieces = [head]
    for slot in result.slots:
        if slot.why:
            pieces += [_marked(b"<", marker, b" ours"), _alone(target, slot.ours), _marked(b"=", marker)]
            pieces += [_alone(target, slot.theirs), _marked(b">", marker, b" theirs")]
        else:
            pieces.append(_alone(target, slot.ours))
    return b"".join([*pieces, end])


def _marked(sign: bytes, length: int, label: bytes = b"") -> bytes:
    return sign * length + label + b"\n"


def _alone(target: Path, record: Record | None) -> bytes:
    """Return a record that continues no other one, so that none is lost with the side that it stands on."""
    return pieces_of(target, Header(name=""), [record], whole=True)[1] if record is not None else b""


def _told(name: str, result: Merged) -> str:
    lines = [f"{name}: {len(result.conflicts)} of {len(result.slots)} records in conflict"]
    lines += [f"  {slot.records[0].kind} {slot.records[0].address}: {slot.why}" for slot in result.conflicts]
    layout = "" if file_kind(Path(name)).packing is None else ", unpacked"
    lines.append(f"  both sides stand in the file{layout}; take one: git checkout --ours {quote(name)}, or --theirs")
    lines.append(
        "  and execute what it lacks: pytest --rerecord=changed (or all of it: AGENTTAPE_MODE=record pytest ...)"
    )
    return "\n".join(lines)
