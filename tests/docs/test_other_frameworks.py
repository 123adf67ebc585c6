"""The page about other frameworks: its table is that of the last `make frameworks`."""

from __future__ import annotations

import json

from ..frameworks.run import BEGIN, END, FRAMEWORKS, PAGE, RESULTS, table


def test_the_page_has_the_results() -> None:
    """The table is made of the committed results, which have all frameworks."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(results) == sorted(FRAMEWORKS)
    assert text.partition(BEGIN)[2].partition(END)[0] == table(results)
