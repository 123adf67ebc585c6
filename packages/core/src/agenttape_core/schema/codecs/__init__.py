"""Codecs that several integrations need, and what theirs are made of: pydantic objects, vectors, HTTP errors.

A module is imported when something of it is: a reader of streams needs `changes` alone.
"""

from typing import TYPE_CHECKING

from agenttape_core.schema.late_names import late_names

if TYPE_CHECKING:
    from agenttape_core.schema.class_names import subclass_name
    from agenttape_core.schema.codecs.fields import (
        CLASS,
        EXTRA,
        Nested,
        build,
        class_in,
        dump_fields,
        keeping_sets,
        mark_class,
        note_set,
        read_extra,
        read_fields,
    )
    from agenttape_core.schema.codecs.floats import VECTORS, Floats, packed
    from agenttape_core.schema.codecs.http import HTTP
    from agenttape_core.schema.plain import expect_dict

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

__getattr__ = late_names(
    __name__,
    {
        "..class_names": ("subclass_name",),
        ".fields": (
            "CLASS",
            "EXTRA",
            "Nested",
            "build",
            "class_in",
            "dump_fields",
            "keeping_sets",
            "mark_class",
            "note_set",
            "read_extra",
            "read_fields",
        ),
        ".floats": ("VECTORS", "Floats", "packed"),
        ".http": ("HTTP",),
        "..plain": ("expect_dict",),
    },
)
