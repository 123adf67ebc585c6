"""`agenttape cassette`: convert, migrate, redact, recover, clean up or checksum files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from agenttape_core import storage
from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import (
    STDIN,
    Found,
    alike,
    found_in,
    found_one,
    named,
    paths_argument,
    reading,
    values_given,
    with_values,
)
from agenttape_core.cli.commands.prune import prune  # noqa: F401 - a command of the group
from agenttape_core.cli.output import cli_command, print_json, print_text, progress, unread
from agenttape_core.errors import CassetteError, CassetteNotFoundError, ConfigurationError, counted, shown_path
from agenttape_core.format.records import INTERACTION_KEYS
from agenttape_core.schema import FORMAT_VERSION, Header, Interaction, Step
from agenttape_core.settings import load_settings
from agenttape_core.storage import Cassette, Location, open_cassette, stem_of
from agenttape_core.storage.asset_files import assets_of
from agenttape_core.tools.rewrite import Migration, Redacted, check_values, journals_in, migration_of, would_redact
from agenttape_core.tools.rewrite import migrate as migrate_one
from agenttape_core.tools.rewrite import redact as redact_one
from agenttape_core.tools.upkeep.checksums import FILE, checksums_of, read_checksums, write_checksums

Result = TypeVar("Result")

# -- checksum: the checksums of cassettes in a file for git.


@cli_command("agenttape cassette checksum tests")
@paths_argument
@click.option(
    "-o", "--output", "file", default=FILE, show_default=True, type=click.Path(path_type=Path), metavar="FILE"
)
def checksum(paths: tuple[str, ...], *, file: Path, as_json: bool) -> None:
    """Keep a checksum of each recorded call in a file for git.

    Ids, times, counts and dates that differ in each recording are left out. agenttape check compares cassettes with the
    file, and fails if a cassette was changed or is gone.
    """
    found = {}
    for each in progress(found_in(paths), "reading"):
        path = _path(each)
        open_cassette(path)  # a file that isn't a cassette gets no checksum
        found[Path(os.path.relpath(path, file.parent)).as_posix()] = checksums_of(path)
    kept = {name: old for name, old in read_checksums(file).items() if (file.parent / name).is_file()}
    write_checksums(file, kept | found)
    if as_json:
        print_json({"written": str(file), "cassettes": sorted(found)})
    else:
        print_text(f"checksums of {counted(len(found), 'cassette')} written to {file}")


def _path(found: Found) -> Path:
    if found.path is None:
        raise click.UsageError(f"{found.shown} isn't a local file; only those can have checksums")
    return found.path


# -- convert: the same cassette in another layout or packing.


@cli_command("agenttape cassette convert cassettes/weather.yaml cassettes/weather.jsonl.gz")
@click.argument("source", type=click.Path(readable=False))
@click.argument("target", type=click.Path(readable=False))
@click.option("--overwrite", is_flag=True, help="Replace an existing cassette.")
@click.option("--keep", is_flag=True, help="Keep SOURCE even if TARGET has its folder and name.")
def convert(source: str, target: str, *, overwrite: bool, keep: bool, as_json: bool) -> None:
    """Convert a cassette to another format or compression.

    The suffix of TARGET is the format. If TARGET has the folder and the name of SOURCE, it replaces SOURCE, so that the
    name refers to one cassette; in all other cases SOURCE is kept.
    """
    found = found_one(source)
    path = storage.convert(found.open(), target, overwrite=overwrite)
    written = shown_path(path)
    replaces = not keep and found.path is not None and _is_another_format(found.path, path)
    if replaces and found.path is not None:
        found.path.unlink()
        shutil.rmtree(assets_of(found.path), ignore_errors=True)
    if as_json:
        print_json({"source": found.shown, "written": written, "replaced": replaces})
    else:
        print_text(f"{found.shown} converted to {written}{', which takes its place' if replaces else ''}")


def _is_another_format(source: Path, target: Location) -> bool:
    """Return True for two files with which a bare name would mean two cassettes."""
    if not isinstance(target, Path):
        return False
    one, other = source.resolve(), target.resolve()
    return one != other and one.parent == other.parent and stem_of(one) == stem_of(other)


# -- migrate and redact: cassettes that are rewritten.


def _rewritten(
    paths: Sequence[str],
    label: str,
    would: Callable[[Cassette], Result],
    do: Callable[[Location], Result],
    *,
    dry_run: bool,
) -> dict[str, Result | str]:
    """Rewrite cassettes, or look at what that would do; return each file with the result, or with the problem."""
    if STDIN in paths and not dry_run:
        raise click.UsageError("a cassette on standard input cannot be replaced; name a file, or use --dry-run")
    done: dict[str, Result | str] = {}
    for found in reading(found_in(paths), label):
        try:
            done[found.shown] = would(found.open()) if dry_run else do(found.file.location)
        except (CassetteError, ConfigurationError) as error:
            done[found.shown] = str(error)
    return done


@cli_command("agenttape cassette migrate tests --dry-run")
@paths_argument
@click.option("--dry-run", is_flag=True, help="Only list the cassettes to migrate; exit with 1 if there is any.")
def migrate(paths: tuple[str, ...], *, dry_run: bool, as_json: bool) -> int:
    """Upgrade cassettes of older formats in place.

    Only cassettes that need a newer format get it. Most cassettes of format 1 are up to date, and don't change.
    """
    done = _rewritten(paths, "migrating", migration_of, migrate_one, dry_run=dry_run)
    if as_json:
        print_json([_plain_migration(shown, one, dry_run=dry_run) for shown, one in done.items()])
    else:
        for shown, one in done.items():
            print_text(_told(shown, one, dry_run=dry_run), "red" if isinstance(one, str) else "")
    if any(isinstance(one, str) for one in done.values()):
        return CASSETTE
    return FINDINGS if dry_run and any(isinstance(one, Migration) and one.is_due for one in done.values()) else OK


def _told(shown: str, done: Migration | str, *, dry_run: bool) -> str:
    if isinstance(done, str):
        return done
    if not done.is_due:
        return f"{shown}: format {done.version}, up to date"
    word = "would be migrated" if dry_run else "migrated"
    if done.version == done.needed:
        return f"{shown}: {word}: ids and tokens of its answers to the volatile block"
    return f"{shown}: {word} from format {done.version} to {done.needed}"


def _plain_migration(shown: str, done: Migration | str, *, dry_run: bool) -> dict[str, object]:
    if isinstance(done, str):
        return {"path": shown, "problem": done}
    return {
        "path": shown,
        "format": done.version,
        "needed": done.needed,
        "migrated": done.is_due and not dry_run,
    }


_NOTHING = Redacted((), (), is_merged=False)
_BEYOND = (
    "Not reached: the history of version control, backups, copies on CI. Revoke every credential among the secrets."
)
_MERGED = "a rule replaced a text that already held a pseudonym: if a replay misses there, record it again"


@cli_command("agenttape cassette redact tests --dry-run")
@paths_argument
@click.option("--dry-run", is_flag=True, help="Only list the secrets; exit with 1 if there is any.")
@with_values
def redact(
    paths: tuple[str, ...], *, dry_run: bool, variables: tuple[str, ...], source: str | None, as_json: bool
) -> int:
    """Replace secrets in cassettes with pseudonyms.

    Also replaces them in assets, and reads the result again to check that they are gone. It finds secrets by the
    detectors and the rules of the project ([tool.agenttape] redaction_rules), so that replays with the same rules still
    match. Exits with 1 if a secret cannot be replaced.
    """
    settings, values = load_settings(), values_given(variables, source, paths)
    check_values(values)
    would = partial(would_redact, settings=settings, values=values)
    do = partial(redact_one, settings=settings, values=values)
    done = _rewritten(paths, "redacting", would, do, dry_run=dry_run)
    found = {shown: _NOTHING if isinstance(one, str) else one for shown, one in done.items()}
    problems = {shown: one for shown, one in done.items() if isinstance(one, str)}
    if as_json:
        print_json([_plain_redaction(shown, one, problems.get(shown)) for shown, one in found.items()])
    else:
        _print_redactions(found, problems, dry_run=dry_run)
    if problems:
        return CASSETTE
    return FINDINGS if any(one.left or (dry_run and one.replaced) for one in found.values()) else OK


def _plain_redaction(shown: str, done: Redacted, problem: str | None) -> dict[str, object]:
    return {
        "path": shown,
        "replaced": [leak._asdict() for leak in done.replaced],
        "left": [leak._asdict() for leak in done.left],
        "merged": done.is_merged,
        "problem": problem,
    }


def _print_redactions(found: Mapping[str, Redacted], problems: Mapping[str, str], *, dry_run: bool) -> None:
    word = "would be replaced" if dry_run else "replaced"
    for shown, one in found.items():
        for leak in one.replaced:
            print_text(f"{shown}: {leak.record}: {leak.kind} at {leak.place} {word}")
        for leak in one.left:
            print_text(f"{shown}: {leak.record}: {leak.kind} at {leak.place} is left", "red")
        if one.is_merged:
            print_text(f"{shown}: {_MERGED}", "yellow")
        if shown in problems:
            print_text(problems[shown], "red")
    count, left = (sum(len(getattr(one, part)) for one in found.values()) for part in ("replaced", "left"))
    line = f"{counted(count, 'secret')} {word}, {left} left" if count + left else "nothing to redact"
    print_text(f"{line}{unread(len(problems), 'redacted')}")
    if count and not dry_run:
        print_text(_BEYOND)


# -- recover: cassettes from recordings that were cut off.


@cli_command("agenttape cassette recover cassettes")
@click.argument("path", default=".", type=click.Path(readable=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only list what can be recovered.")
def recover(path: Path, *, dry_run: bool, as_json: bool) -> int:
    """Recover recordings that were cut off.

    PATH is a journal, the path or name of a cassette, or a folder for all below it. A good cassette is never replaced:
    the recovered one is NAME.recovered.yaml.
    """
    journals = _journals(path)
    results = [(journal, *_recovered(journal, dry_run=dry_run)) for journal in progress(journals, "recovering")]
    if as_json:
        print_json([{"journal": str(j), "written": w or None, "problem": p or None} for j, w, p in results])
    elif not results:
        print_text("nothing to recover")
    else:
        for journal, written, problem in results:
            print_text(problem or shown_path(journal) + (f" is now {written}" if written else " can be recovered"))
    return CASSETTE if any(problem for _, _, problem in results) else OK


def _journals(path: Path) -> list[Path]:
    """Return the journals that a path or a name means.

    Raises `CassetteNotFoundError` if there's no cassette of this name, and `UsageError` if several have it.
    """
    if path.is_dir():
        return journals_in(path)
    if left := storage.leftover_journals(path):
        return left
    if path.is_file():
        return [path]
    begun = map(storage.target_of, journals_in(Path()))
    cassette = named(str(path), [target for target in begun if target is not None])
    if cassette is None:
        remedy = alike(str(path)) or "name a journal, a cassette or a folder"
        raise CassetteNotFoundError(path, "there is no such file or folder", remedy=remedy)
    return storage.leftover_journals(cassette)


def _recovered(journal: Path, *, dry_run: bool) -> tuple[str, str]:
    if dry_run:
        return "", ""
    try:
        return shown_path(storage.recover(journal)), ""
    except CassetteError as error:
        return "", str(error)


# -- schema: the JSON Schema of a cassette.


@cli_command("agenttape cassette schema > cassette.schema.json")
def schema(*, as_json: bool) -> None:  # noqa: ARG001 - it is JSON anyway
    """Print the JSON Schema of a record.

    That is a line of the JSON format, or a document of the YAML format.

    It is for editors and other languages. The order of records and the references between them are checked by
    agenttape check alone.
    """
    print_json(json_schema())


# The JSON Schema of a cassette: of a line of the JSON layout, and of a document of the YAML layout.

_DEFINED = "#/$defs/{model}"
_TEXTS = ("stamps", "steps", "timings")
"""The parts of the volatile block that are written as text, each in its own form."""
_REFERENCE = r"^\$\{[1-9][0-9]*\.\w+(?:~[0-9]+)?\}$"
_END = {"additionalProperties": False, "properties": {"end": {"const": True}}}  # the last line of the JSON layout


def json_schema() -> dict[str, Any]:
    """Return the schema, by draft 2020-12, of one record of a cassette: the header, an interaction or a step.

    It holds for all format versions up to this one. What stands between records is beyond it: their order, growing
    numbers, and references to earlier ones. `agenttape check` checks these as well.
    """
    shared: dict[str, Any] = {}
    header, interaction, step = (_of_model(model, shared) for model in (Header, Interaction, Step))
    version = {"type": "integer", "minimum": 1, "maximum": FORMAT_VERSION, "description": "The format version."}
    _rename(header, {"agenttape": version})
    shared["Volatile"]["properties"].update({key: {"type": "string"} for key in _TEXTS})
    usage = shared["Outcome"]["properties"]["usage"]
    usage["anyOf"].append({"type": "string", "pattern": _REFERENCE, "description": "A reference to a stamp."})
    number = interaction["properties"].pop("number")
    _rename(interaction, {"interaction": number})
    for key in sorted(INTERACTION_KEYS - interaction["properties"].keys()):
        interaction["properties"][key] = {}
    _rename(step, {"step": step["properties"].pop("number")})
    shared["Outcome"]["allOf"] = [
        _needs("status", "raised", "error", "object"),
        _needs("ended", "raised", "error", "object"),
        _needs("status", "streamed", "chunks", "array"),
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A record of a cassette of AgentTape",
        "type": "object",
        "if": {"required": ["agenttape"]},
        "then": header,
        "else": {
            "if": {"required": ["step"]},
            "then": step,
            "else": {"if": {"required": ["end"]}, "then": _END, "else": interaction},
        },
        "$defs": shared,
    }


def _of_model(model: Any, shared: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a sort of records, and put the definitions that it refers to among the shared ones."""
    schema: dict[str, Any] = model.model_json_schema(ref_template=_DEFINED)
    shared.update(schema.pop("$defs", {}))
    return schema


def _rename(schema: dict[str, Any], first: dict[str, Any]) -> None:
    """Put the key that identifies the kind of record first, instead of its number in the model."""
    schema["properties"] = {**first, **schema["properties"]}
    schema["required"] = [*first, *(key for key in schema.get("required", ()) if key != "number")]


def _needs(key: str, value: str, needed: str, kind: str) -> dict[str, Any]:
    """Return the rule that a value needs another key."""
    return {
        "if": {"required": [key], "properties": {key: {"const": value}}},
        "then": {"required": [needed], "properties": {needed: {"type": kind}}},
    }
