"""`agenttape show --html`: a page for the browser of one cassette, or of two side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from agenttape_core.cli.app import CASSETTE, OK
from agenttape_core.cli.cassettes import STDIN, Found, found_in, found_one, is_folder, reading
from agenttape_core.cli.output import print_json, print_text, progress_bar
from agenttape_core.errors import CassetteError, counted
from agenttape_core.matching import Ignored
from agenttape_core.settings import load_settings
from agenttape_core.storage import SUFFIXES
from agenttape_core.tools.compare import Comparison
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.reading.summary import overview_of
from agenttape_core.tools.viewer import Listed, is_page, listing_of, page_of

if TYPE_CHECKING:
    from agenttape_core.experiments.program import Program
    from agenttape_core.experiments.strategies.why import Flow

_PAGES = "agenttape-pages"  # the folder of the pages of a folder


def write_page(
    paths: Sequence[str], output: str | None, program: str | None, text: str | None, *, opens: bool, as_json: bool
) -> int:
    """Write a page of one cassette, of two next to each other, or one for each of a folder.

    `output` is a file or a folder, by default named after the cassettes; with `program`, replays show which answers
    change which calls, and with `text`, only what this text in an answer changes. Returns the exit code. Raises
    `UsageError` if the file cannot be written, or options don't fit together.
    """
    if not 1 <= len(paths) <= 2 or list(paths) == [STDIN, STDIN]:  # noqa: PLR2004 - one, or two to compare
        raise click.UsageError("a page shows one cassette or two, of which one may be on standard input")
    path = paths[0]
    if program is not None and (len(paths) > 1 or path == STDIN or is_folder(path)):
        raise click.UsageError("--why replays one cassette: name its file, and no other")
    if len(paths) == 1 and path != STDIN and is_folder(path) and len(several := found_in([path])) > 1:
        return _folder(path, several, Path(output or _PAGES), opens=opens, as_json=as_json)
    found = [found_one(each) for each in paths]
    target = _target(output, found)
    if target is None and (opens or as_json):
        raise click.UsageError("--open and --json need a file: name one with --html")
    with progress_bar(None, "replaying" if program is not None else "reading") as advance:
        flow = _flow(found[0], program, text, advance) if program is not None else None
        page, comparison = _page(found, flow)
    if target is None:
        sys.stdout.write(page)
        return OK
    _write(target, page)
    if as_json:
        shown = [each.shown for each in found]
        facts = {"identical": comparison.identical} if comparison is not None else {}
        print_json({"cassettes": shown, "written": str(target), "bytes": target.stat().st_size, **facts})
    else:
        print_text(f"wrote {target}; open it in a browser")
    if opens:
        click.launch(str(target))
    return OK


def _folder(folder: str, several: list[Found], target: Path, *, opens: bool, as_json: bool) -> int:
    """Write a page for each cassette of a folder, and one that lists them. What cannot be read is listed with why."""
    prices = load_prices(load_settings().prices)
    listed: list[Listed] = []
    listed_at = {}
    for found in reading(several):
        name = found.file.key
        listed_at[name] = found.shown
        try:
            cassette = found.look()
            page = page_of([(_name(found), cassette)], prices)
            listed.append(Listed(name, f"{name}.html", overview_of(cassette, prices)))
        except CassetteError as error:
            listed.append(Listed(name, "", problem=str(error).splitlines()[0]))
            continue
        _write_ours(target / f"{name}.html", page)
    index = target / "index.html"
    _write_ours(index, listing_of(PurePath(folder if "://" in folder else Path(folder).resolve()).name, listed))
    broken = [one for one in listed if one.problem]
    if as_json:
        pages = {listed_at[one.name]: str(target / one.page) for one in listed if one.page}
        problems = {listed_at[one.name]: one.problem for one in broken}
        print_json({"written": str(index), "pages": pages, "problems": problems})
    else:
        print_text(f"wrote {index} and {counted(len(listed) - len(broken), 'page')}; open it in a browser")
        for one in broken:
            print_text(one.problem, "red")
    if opens:
        click.launch(str(index))
    return CASSETTE if broken else OK


def _write_ours(target: Path, page: str) -> None:
    if target.exists() and not _is_ours(target):
        raise click.UsageError(
            f"{target} is not a page of agenttape show; name another folder with --html, or remove it"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"{target.parent} cannot be made: {error.strerror or error}") from None
    _write(target, page)


def _flow(found: Found, program: str, text: str | None, advance: Callable[[], object]) -> dict[str, Any]:
    """Return the edges between the calls of a cassette, as the page needs them."""
    from agenttape_core.cli.labs import with_program
    from agenttape_core.experiments.strategies.why import why

    path = found.path if found.path is not None else found.shown

    def work(replayed: Program) -> Flow:
        return why(replayed, path, text=text, on_run=advance).flow

    plain = with_program(program, work, cassette=path).to_dict()
    return {"edges": plain["edges"], "fixed": plain["fixed"], **({"text": text} if text is not None else {})}


def _page(found: list[Found], flow: dict[str, Any] | None) -> tuple[str, Comparison | None]:
    cassettes = [(_name(each), each.look()) for each in found]
    comparison = None
    if len(cassettes) > 1:
        comparison = Comparison(cassettes[0][1], cassettes[1][1], Ignored.of(()))
    return page_of(cassettes, load_prices(load_settings().prices), comparison, flow), comparison


def _name(found: Found) -> str:
    """Return the name of a cassette on the page: its file's name, without the folders of this machine."""
    return found.path.name if found.path is not None else found.shown.rpartition("/")[2]


def _target(output: str | None, found: list[Found]) -> Path | None:
    """Return the file to write; None for standard output. Raises `UsageError` if another file or a folder is there."""
    if output == STDIN:
        return None
    names = "-".join(_stem(_name(each)) for each in found)
    target = Path(output) if output is not None else Path(f"{names}.html")
    if target.is_dir():
        raise click.UsageError(f"{target} is a folder; name a file in it with --html")
    if target.exists() and not _is_ours(target):
        raise click.UsageError(f"{target} is not a page of agenttape show; name another file with --html, or remove it")
    return target


def _stem(name: str) -> str:
    while name.endswith(SUFFIXES):
        name = name.rpartition(".")[0]
    return name.replace(" ", "-")


def _is_ours(target: Path) -> bool:
    with target.open(encoding="utf-8", errors="replace") as file:
        return is_page(file.read(200))


def _write(target: Path, page: str) -> None:
    try:
        target.write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise click.UsageError(f"{target} cannot be written: {error.strerror or error}") from None
