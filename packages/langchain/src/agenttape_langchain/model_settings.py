"""The meaning of a response format, in any form in which LangChain takes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.utils.function_calling import convert_to_json_schema

from agenttape_core.integration import stand_ins


def format_meaning(response_format: Any) -> tuple[Any, ...] | None:
    """Return the name and fields of a response format, given as a provider's dict, a JSON schema or a class."""
    is_spelled = response_format is None or isinstance(response_format, Mapping | str)
    return stand_ins.format_meaning(response_format if is_spelled else convert_to_json_schema(response_format))
