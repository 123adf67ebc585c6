"""A function as a command: `python -m agenttape_core.tools.processes.run_api module:function` calls it."""

from __future__ import annotations

import sys

from agenttape_core.tools.target import load, run_to_end, target_of

_USAGE = 2


def main(name: str) -> None:
    """Call a function without arguments, and whatever it returns to be awaited or read to its end."""
    target = target_of(name)
    try:
        function = load(target)
    except (ImportError, AttributeError, TypeError) as error:
        sys.stderr.write(f"agenttape: cannot call {target}: {type(error).__name__}: {error}\n")
        sys.exit(_USAGE)
    run_to_end(function)


if __name__ == "__main__":
    sys.argv[:] = sys.argv[1:2]  # a program's own `main` reads its arguments, and there are none
    main(sys.argv[0])
