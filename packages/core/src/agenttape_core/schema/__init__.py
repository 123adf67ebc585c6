"""A cassette as data: inert records, the format version, and plain data.

A module is imported when something of it is: whoever reads plain data needs no records.
"""

from typing import TYPE_CHECKING

from agenttape_core.schema.late_names import late_names

if TYPE_CHECKING:
    from agenttape_core.schema.class_names import class_name, loaded_class
    from agenttape_core.schema.exported import HEADER_ATTRIBUTE, RECORD_ATTRIBUTE
    from agenttape_core.schema.header import FORMAT_VERSION, Entry, Freeze, Header, Redaction, Volatile
    from agenttape_core.schema.index_row import IndexRow
    from agenttape_core.schema.interaction import Fidelity, Interaction, SideEffect, Timing
    from agenttape_core.schema.kinds import (
        FAKED,
        HASH_SEED,
        KINDS,
        MODEL_KINDS,
        OWN,
        PURE_KINDS,
        UNAVAILABLE,
        Kind,
        asks_model,
        model_path,
    )
    from agenttape_core.schema.opaque import OPAQUE, Opaque
    from agenttape_core.schema.outcome import Effect, Outcome, RecordedError, Usage
    from agenttape_core.schema.plain import Plain
    from agenttape_core.schema.python_types import PYTHON_VALUES
    from agenttape_core.schema.schedule import Admissions, Delivery, Scheduled, Sender, of_at_once, written
    from agenttape_core.schema.step import GAP, Step, StepTiming, is_gap_of
    from agenttape_core.schema.user_types import ALL_VALUES
    from agenttape_core.schema.values import TypeCodec, ValueCodec

__all__ = [
    "ALL_VALUES",
    "FAKED",
    "FORMAT_VERSION",
    "GAP",
    "HASH_SEED",
    "HEADER_ATTRIBUTE",
    "KINDS",
    "MODEL_KINDS",
    "OPAQUE",
    "OWN",
    "PURE_KINDS",
    "PYTHON_VALUES",
    "RECORD_ATTRIBUTE",
    "UNAVAILABLE",
    "Admissions",
    "Delivery",
    "Effect",
    "Entry",
    "Fidelity",
    "Freeze",
    "Header",
    "IndexRow",
    "Interaction",
    "Kind",
    "Opaque",
    "Outcome",
    "Plain",
    "RecordedError",
    "Redaction",
    "Scheduled",
    "Sender",
    "SideEffect",
    "Step",
    "StepTiming",
    "Timing",
    "TypeCodec",
    "Usage",
    "ValueCodec",
    "Volatile",
    "asks_model",
    "class_name",
    "is_gap_of",
    "loaded_class",
    "model_path",
    "of_at_once",
    "written",
]

__getattr__ = late_names(
    __name__,
    {
        ".class_names": ("class_name", "loaded_class"),
        ".exported": ("HEADER_ATTRIBUTE", "RECORD_ATTRIBUTE"),
        ".header": ("FORMAT_VERSION", "Entry", "Freeze", "Header", "Redaction", "Volatile"),
        ".index_row": ("IndexRow",),
        ".interaction": ("SideEffect", "Fidelity", "Interaction", "Timing"),
        ".kinds": (
            "FAKED",
            "HASH_SEED",
            "KINDS",
            "MODEL_KINDS",
            "OWN",
            "PURE_KINDS",
            "UNAVAILABLE",
            "Kind",
            "asks_model",
            "model_path",
        ),
        ".opaque": ("OPAQUE", "Opaque"),
        ".outcome": ("Effect", "Outcome", "RecordedError", "Usage"),
        ".plain": ("Plain",),
        ".python_types": ("PYTHON_VALUES",),
        ".schedule": ("Admissions", "Delivery", "Scheduled", "Sender", "of_at_once", "written"),
        ".step": ("GAP", "Step", "StepTiming", "is_gap_of"),
        ".user_types": ("ALL_VALUES",),
        ".values": ("TypeCodec", "ValueCodec"),
    },
)
