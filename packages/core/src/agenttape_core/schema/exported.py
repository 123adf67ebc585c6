"""The attributes of exported spans that hold a cassette itself, so that it can be made again of the spans."""

HEADER_ATTRIBUTE = "agenttape.header"  # on the span of the run: the header as JSON, without the key of its pseudonyms
RECORD_ATTRIBUTE = "agenttape.record"
"""On a span or an event: `{"order": n, "interaction": {...}}` or `{"order": n, "step": {...}}` as JSON."""
