"""The comparison of two cassettes, record by record."""

from agenttape_core.tools.compare.comparison import Compared, Comparison, State, compare_cassettes, named_cassette

__all__ = ["Compared", "Comparison", "State", "compare_cassettes", "named_cassette"]
