"""`agenttape cassette`: convert, migrate, redact, recover, clean up or checksum files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import click

from agenttape_core import storage
from agenttape_core.cli.app import CASSETTE, FINDINGS, OK, Commands
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
from agenttape_core.cli.commands.prune import prune
from agenttape_core.cli.output import cli_command, print_json, print_text, progress, unread
from agenttape_core.errors import CassetteError, CassetteNotFoundError, ConfigurationError, counted, shown_path
from agenttape_core.format.records import INTERACTION_KEYS
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import FORMAT_VERSION, Header, Interaction, Step
from agenttape_core.settings import Settings, load_settings
from agenttape_core.storage import Location, open_cassette, stem_of
from agenttape_core.storage.asset_files import assets_of
from agenttape_core.tools.rewrite import Migration, Redacted, check_values, journals_in, migration_of, would_redact
from agenttape_core.tools.rewrite import migrate as migrate_one
from agenttape_core.tools.rewrite import redact as redact_one
from agenttape_core.tools.upkeep.checksums import FILE, checksums_of, read_checksums, write_checksums

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


# -- migrate: cassettes of older formats.


class _Upgraded(NamedTuple):
    shown: str  # the file
    migration: Migration | None
    problem: str = ""


@cli_command("agenttape cassette migrate tests --dry-run")
@paths_argument
@click.option("--dry-run", is_flag=True, help="Only list the cassettes to migrate; exit with 1 if there is any.")
def migrate(paths: tuple[str, ...], *, dry_run: bool, as_json: bool) -> int:
    """Upgrade cassettes of older formats in place.

    Only cassettes that need a newer format get it. Most cassettes of format 1 are up to date, and don't change.
    """
    if STDIN in paths and not dry_run:
        raise click.UsageError("a cassette on standard input cannot be replaced; name a file, or use --dry-run")
    done = [_migrated(found, dry_run=dry_run) for found in reading(found_in(paths), "migrating")]
    if as_json:
        print_json([_plain_upgrade(each, dry_run=dry_run) for each in done])
    else:
        for each in done:
            print_text(_report_of(each, dry_run=dry_run), "red" if each.problem else "")
    if any(each.problem for each in done):
        return CASSETTE
    return FINDINGS if dry_run and any(each.migration and each.migration.is_due for each in done) else OK


def _migrated(found: Found, *, dry_run: bool) -> _Upgraded:
    try:
        if dry_run:
            return _Upgraded(found.shown, migration_of(found.open()))
        return _Upgraded(found.shown, migrate_one(found.file.location))
    except CassetteError as error:
        return _Upgraded(found.shown, None, str(error))


def _report_of(done: _Upgraded, *, dry_run: bool) -> str:
    migration = done.migration
    if migration is None:
        return done.problem
    if not migration.is_due:
        return f"{done.shown}: format {migration.version}, up to date"
    word = "would be migrated" if dry_run else "migrated"
    if migration.version == migration.needed:
        return f"{done.shown}: {word}: ids and tokens of its answers to the volatile block"
    return f"{done.shown}: {word} from format {migration.version} to {migration.needed}"


def _plain_upgrade(done: _Upgraded, *, dry_run: bool) -> dict[str, object]:
    migration = done.migration
    if migration is None:
        return {"path": done.shown, "problem": done.problem}
    row = {"path": done.shown, "format": migration.version, "needed": migration.needed}
    return {**row, "migrated": migration.is_due and not dry_run}


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


# -- redact: remove secrets from cassettes.


_NOTHING = Redacted((), (), is_merged=False)
_BEYOND = (
    "Not reached: the history of version control, backups, copies on CI. Revoke every credential among the secrets."
)
_MERGED = "a rule replaced a text that already held a pseudonym: if a replay misses there, record it again"


class _Done(NamedTuple):
    shown: str  # the file
    result: Redacted
    problem: str


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
    found = _rewritable(paths, dry_run=dry_run)
    done = [_redacted(each, settings, values, dry_run=dry_run) for each in reading(found, "redacting")]
    if as_json:
        print_json([_plain(each) for each in done])
    else:
        _report(done, dry_run=dry_run)
    if any(each.problem for each in done):
        return CASSETTE
    is_open = any(each.result.left or (dry_run and each.result.replaced) for each in done)
    return FINDINGS if is_open else OK


def _rewritable(paths: tuple[str, ...], *, dry_run: bool) -> list[Found]:
    if STDIN in paths and not dry_run:
        raise click.UsageError("a cassette on standard input cannot be replaced; name a file, or use --dry-run")
    return found_in(paths)


def _redacted(found: Found, settings: Settings, values: list[str], *, dry_run: bool) -> _Done:
    try:
        if dry_run:
            return _Done(found.shown, would_redact(found.open(), settings, values), "")
        return _Done(found.shown, redact_one(found.file.location, settings, values), "")
    except (CassetteError, ConfigurationError) as error:
        return _Done(found.shown, _NOTHING, str(error))


def _plain(done: _Done) -> dict[str, object]:
    result = done.result
    return {
        "path": done.shown,
        "replaced": [leak._asdict() for leak in result.replaced],
        "left": [leak._asdict() for leak in result.left],
        "merged": result.is_merged,
        "problem": done.problem or None,
    }


def _report(done: list[_Done], *, dry_run: bool) -> None:
    for shown, result, problem in done:
        for leak in result.replaced:
            word = "would be replaced" if dry_run else "replaced"
            print_text(f"{shown}: {leak.record}: {leak.kind} at {leak.place} {word}")
        for leak in result.left:
            print_text(f"{shown}: {leak.record}: {leak.kind} at {leak.place} is left", "red")
        if result.is_merged:
            print_text(f"{shown}: {_MERGED}", "yellow")
        if problem:
            print_text(problem, "red")
    count = sum(len(each.result.replaced) for each in done)
    left = sum(len(each.result.left) for each in done)
    word = "would be replaced" if dry_run else "replaced"
    line = f"{counted(count, 'secret')} {word}, {left} left" if count + left else "nothing to redact"
    print_text(f"{line}{unread(sum(bool(each.problem) for each in done), 'redacted')}")
    if count and not dry_run:
        print_text(_BEYOND)


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


@click.group(
    cls=Commands,
    commands=(checksum, convert, migrate, prune, recover, redact, schema),
    epilog="Example: agenttape cassette convert cassettes/weather.yaml cassettes/weather.jsonl.gz",
)
def cassette() -> None:
    """Convert, migrate, redact, recover, clean up or checksum files."""
