"""Importers: making a cassette of a recording that another tool has made.

A file of another tool is read, and its calls are graded, here. A package brings a `Framework`, which makes calls of its
framework of them: the provider's own package parses each recorded response, on a `Wire` that leads nowhere.
"""

from agenttape_core.integration.importing.agenttape01 import import_agenttape01
from agenttape_core.integration.importing.foreign_files import (
    AS_JSON,
    error_named,
    expect_list,
    expect_mapping,
    is_scalar,
    literal_arguments,
    malformed,
    parse_json,
    read_source,
)
from agenttape_core.integration.importing.framework import Framework, Options
from agenttape_core.integration.importing.http_exchanges import Exchange
from agenttape_core.integration.importing.outlines import (
    is_of_agenttape01,
    is_of_langsmith,
    is_of_traces,
    is_of_vcrpy,
    outline_of,
)
from agenttape_core.integration.importing.request_parts import (
    EarlierAnswers,
    NotImportableError,
    embedded_texts,
    expect,
    items,
)
from agenttape_core.integration.importing.spans import Span, parsed
from agenttape_core.integration.importing.traced_calls import (
    Traced,
    TracedModelCall,
    TracedRetrieval,
    TracedToolCall,
    TraceFramework,
    parts_in,
    results_in,
    role_in,
    tool_calls_in,
)
from agenttape_core.integration.importing.traces import Whole, import_otel
from agenttape_core.integration.importing.vcr import import_vcr
from agenttape_core.integration.importing.wire import Wire, apart_class, provider_class, wire_of
from agenttape_core.lifecycle.imported import CallFacts, Graded, Importer, Importing, ImportReport

__all__ = [
    "AS_JSON",
    "CallFacts",
    "EarlierAnswers",
    "Exchange",
    "Framework",
    "Graded",
    "ImportReport",
    "Importer",
    "Importing",
    "NotImportableError",
    "Options",
    "Span",
    "TraceFramework",
    "Traced",
    "TracedModelCall",
    "TracedRetrieval",
    "TracedToolCall",
    "Whole",
    "Wire",
    "apart_class",
    "embedded_texts",
    "error_named",
    "expect",
    "expect_list",
    "expect_mapping",
    "import_agenttape01",
    "import_otel",
    "import_vcr",
    "is_of_agenttape01",
    "is_of_langsmith",
    "is_of_traces",
    "is_of_vcrpy",
    "is_scalar",
    "items",
    "literal_arguments",
    "malformed",
    "outline_of",
    "parse_json",
    "parsed",
    "parts_in",
    "provider_class",
    "read_source",
    "results_in",
    "role_in",
    "tool_calls_in",
    "wire_of",
]
