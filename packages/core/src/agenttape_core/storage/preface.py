"""The header of a cassette in its stored form, apart from the texts in it that most readers never need parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.format.records import has_assets, header_from_dict
from agenttape_core.format.volatile_values import Stamps

if TYPE_CHECKING:
    from agenttape_core.format.layout import Layout
    from agenttape_core.schema import Header


class Preface(NamedTuple):
    """A header in its parts.

    Args:
        header: The header without times.
        timings: The times of interactions, in their stored form.
        step_timings: The times of steps, in their stored form.
        stamps: The stamps of the records, if they are in the header.
        has_assets: Whether records have assets beside the file.
    """

    header: Header
    timings: str
    step_timings: str
    stamps: Stamps | None
    has_assets: bool


def read_preface(layout: Layout, written: bytes) -> Preface:
    """Read the header of a cassette.

    Args:
        layout: The layout of the file.
        written: The header in its stored form.

    Raises:
        Malformed: If it isn't a header.
    """
    fields, timings = layout.header(written)
    volatile = fields.get("volatile")
    steps = stamps = ""
    if isinstance(volatile, dict):  # texts are taken out of it, as a layout takes out the timings of interactions
        steps = volatile.pop("steps") if isinstance(volatile.get("steps"), str) else ""
        stamps = volatile.pop("stamps") if isinstance(volatile.get("stamps"), str) else ""
    return Preface(header_from_dict(fields), timings, steps, Stamps(stamps) if stamps else None, has_assets(fields))
