"""The ceilings of the code: read, compared with what is measured, and lowered.

Lower those in `ceilings.toml` to what is measured (`make ceilings` runs it):

    python -m tests.workspace.ceilings
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import sizes

_HERE = Path(__file__).parent
FILE = _HERE / "ceilings.toml"
COUNTED_WITH = (3, 11)
"""The version of Python that calls are counted with: others inline functions and resume generators in other ways."""

Table = Mapping[str, int]
Tables = Mapping[str, Table]


def allowed() -> Tables:
    """Return the ceilings, by table and name."""
    return tomllib.loads(FILE.read_text("utf-8"))


def measured() -> Tables:
    """Return the sizes of the packages, by table and name."""
    return sizes.measured()


def counted() -> Tables:
    """Return what the paths of `counts.py` take, by table and path; counted in a process without our settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, _HERE / "counts.py"], check=True, stdout=subprocess.PIPE, env={**kept, "PYTHONHASHSEED": "0"}
    )
    tables: dict[str, dict[str, int]] = {}
    for path, figures in json.loads(done.stdout).items():
        for figure, value in figures.items():
            tables.setdefault(figure, {})[path] = value
    return tables


def exceeded(found: Tables, allowed: Tables) -> Iterator[str]:
    """Yield a line for each figure above its ceiling, and for each that has no ceiling or isn't measured."""
    for table, figures in found.items():
        ceilings = allowed.get(table, {})
        for name in {**figures, **ceilings}:
            value, most = figures.get(name), ceilings.get(name)
            if value is None:
                yield f'{table} of "{name}": not measured; remove its ceiling'
            elif most is None:
                yield f'{table} of "{name}": {value}, without a ceiling; add "{name}" = {value}'
            elif value > most:
                yield f'{table} of "{name}": {value}, {value - most} above the ceiling of {most}'


def lowered(text: str, found: Tables) -> str:
    """Return the text of the ceilings with each above what was found lowered to that; no other line changes."""
    lines, table = [], ""
    for line in text.splitlines():
        if header := re.fullmatch(r"\[(.+)\]", line):
            table = header[1]
        entry = re.fullmatch(r'("(.+)" = )(\d+)(.*)', line)
        value = found.get(table, {}).get(entry[2]) if entry else None
        if entry and value is not None and value < int(entry[3]):
            lines.append(f"{entry[1]}{value}{entry[4]}")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Lower the ceilings, and print what exceeds them."""
    found = {**measured(), **(counted() if sys.version_info[:2] == COUNTED_WITH else {})}
    before = FILE.read_text("utf-8")
    after = lowered(before, found)
    FILE.write_text(after, "utf-8")
    changed = sum(one != other for one, other in zip(before.splitlines(), after.splitlines(), strict=True))
    high = list(exceeded(found, allowed()))
    sys.stdout.write("\n".join([f"{changed} ceilings lowered", *high, ""]))
    return 1 if high else 0


if __name__ == "__main__":
    sys.exit(main())
