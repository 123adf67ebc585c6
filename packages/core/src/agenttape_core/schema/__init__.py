"""A cassette as data: inert records, the format version, and plain data."""

from agenttape_core.schema.class_names import class_name, loaded_class
from agenttape_core.schema.exported import HEADER_ATTRIBUTE, RECORD_ATTRIBUTE
from agenttape_core.schema.header import FORMAT_VERSION, Entry, Freeze, Header, Redaction, Volatile
from agenttape_core.schema.index_row import IndexRow
from agenttape_core.schema.interaction import KINDS, MODEL_KINDS, PURE_KINDS, Act, Fidelity, Interaction, Kind, Timing
from agenttape_core.schema.opaque import OPAQUE, Opaque
from agenttape_core.schema.outcome import Effect, Outcome, RecordedError, Usage
from agenttape_core.schema.python_types import PYTHON_VALUES
from agenttape_core.schema.schedule import Delivery, Scheduled, Sender, of_at_once, of_ends, thread_number, written
from agenttape_core.schema.step import GAP, Step, StepTiming, is_gap_of
from agenttape_core.schema.user_types import ALL_VALUES
from agenttape_core.schema.values import Plain, TypeCodec, ValueCodec

__all__ = [
    "ALL_VALUES",
    "FORMAT_VERSION",
    "GAP",
    "HEADER_ATTRIBUTE",
    "KINDS",
    "MODEL_KINDS",
    "OPAQUE",
    "PURE_KINDS",
    "PYTHON_VALUES",
    "RECORD_ATTRIBUTE",
    "Act",
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
    "Step",
    "StepTiming",
    "Timing",
    "TypeCodec",
    "Usage",
    "ValueCodec",
    "Volatile",
    "class_name",
    "is_gap_of",
    "loaded_class",
    "of_at_once",
    "of_ends",
    "thread_number",
    "written",
]
