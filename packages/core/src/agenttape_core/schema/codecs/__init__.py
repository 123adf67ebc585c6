"""Codecs that several integrations need, and what theirs are made of: pydantic objects, vectors, HTTP errors."""

from agenttape_core.schema.class_names import subclass_name
from agenttape_core.schema.class_names import writing_answers as keeping_sets
from agenttape_core.schema.codecs import floats, http
from agenttape_core.schema.codecs.fields import (
    CLASS,
    EXTRA,
    Nested,
    build,
    class_in,
    dump_fields,
    expect_dict,
    mark_class,
    note_set,
    read_extra,
    read_fields,
)
from agenttape_core.schema.codecs.floats import Floats, packed

VECTORS = (floats.CODEC,)
"""Long lists of floats, marked by `packed`."""
HTTP = http.CODECS
"""The requests and responses that provider SDKs attach to their exceptions."""

__all__ = [
    "CLASS",
    "EXTRA",
    "HTTP",
    "VECTORS",
    "Floats",
    "Nested",
    "build",
    "class_in",
    "dump_fields",
    "expect_dict",
    "keeping_sets",
    "mark_class",
    "note_set",
    "packed",
    "read_extra",
    "read_fields",
    "subclass_name",
]
