"""`agenttape cassette schema`: the JSON Schema of cassettes."""

from __future__ import annotations

from agenttape_core.cli.output import cli_command, print_json
from agenttape_core.format.json_schema import json_schema


@cli_command("agenttape cassette schema > cassette.schema.json")
def schema(*, as_json: bool) -> None:  # noqa: ARG001 - it is JSON anyway
    """Print the JSON Schema of a record.

    That is a line of the JSON format, or a document of the YAML format.

    It is for editors and other languages. The order of records and the references between them are checked by
    agenttape check alone.
    """
    print_json(json_schema())
