"""What a cassette is: inert records, the format version, and plain data."""

from agenttape_core.schema.header import FORMAT_VERSION, Freeze, Header, Redaction, Volatile
from agenttape_core.schema.interaction import Interaction, Timing
from agenttape_core.schema.outcome import Outcome, RecordedError, Usage
from agenttape_core.schema.python_types import PYTHON_VALUES, class_name, loaded_class
from agenttape_core.schema.values import Plain, TypeCodec, ValueCodec

__all__ = [
    "FORMAT_VERSION",
    "PYTHON_VALUES",
    "Freeze",
    "Header",
    "Interaction",
    "Outcome",
    "Plain",
    "RecordedError",
    "Redaction",
    "Timing",
    "TypeCodec",
    "Usage",
    "ValueCodec",
    "Volatile",
    "class_name",
    "loaded_class",
]
