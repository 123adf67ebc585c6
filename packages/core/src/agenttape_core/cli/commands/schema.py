"""`agenttape cassette schema`: the JSON Schema of cassettes."""

from __future__ import annotations

from typing import Any

from agenttape_core.cli.output import cli_command, print_json
from agenttape_core.format.records import INTERACTION_KEYS
from agenttape_core.schema import FORMAT_VERSION, Header, Interaction, Step


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
