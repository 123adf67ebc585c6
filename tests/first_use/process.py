"""One process of `make imports`: import and use packages within a session, after it, and once more.

Arguments: the mode of the sessions, `all` or `none`, and the names of distributions.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from uses import PACKAGES

from agenttape_core import boundary, use_cassette


@boundary("tool")
def touched() -> str:
    """Be something to record."""
    return "by the session"


def main(mode: str, names: list[str]) -> None:
    """Use the packages in two sessions, and after each."""
    for _ in range(2):
        with use_cassette("c.yaml", mode=mode, freeze=("clock", "uuid", "random", "numpy", "env")):
            touched()
            use(names)
        use(names)


def use(names: list[str]) -> None:
    """Use the packages."""
    for name in names:
        PACKAGES[name](datetime.now(UTC))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
