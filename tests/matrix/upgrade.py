"""Move constraints.txt to the newest versions that fit together: `make upgrade`.

`make upgrade OF="openai anthropic"` moves those alone. The tables of versions on the pages follow. The tests then run
with the new versions; if one fails, all files are restored, and the new versions stay in .venv-upgrade/constraints.txt.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.matrix.run import NAMES, ROOT

PINNED = ROOT / "constraints.txt"
PROPOSED = ROOT / ".venv-upgrade" / "constraints.txt"
GROUPS = ("dev", "parts", "build")
PAGES = [ROOT / "docs" / f"{name}.md" for name in NAMES if name != "core"]
"""The pages with a table of the oldest and the newest versions that are supported."""


def normal(name: str) -> str:
    """Return the name of a distribution as PyPA's specification normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """Return the versions that a file of constraints pins, by its own spelling of the names."""
    return dict(line.strip().split("==") for line in text.splitlines() if "==" in line)


def newest(kept: dict[str, str]) -> dict[str, str]:
    """Return the newest versions that fit together, by normalized name, beside those that are kept."""
    with tempfile.TemporaryDirectory() as folder:
        report, constraints = Path(folder) / "report.json", Path(folder) / "kept.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in kept.items()), encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
        pip += ["--ignore-installed", "--report", str(report), "-c", str(constraints)]
        pip += [word for name in NAMES for word in ("-e", f"packages/{name}")]
        pip += [word for group in GROUPS for word in ("--group", group)]
        subprocess.run(pip, check=True, cwd=ROOT)
        found = [each["metadata"] for each in json.loads(report.read_text(encoding="utf-8"))["install"]]
    return {normal(each["name"]): each["version"] for each in found}


def moved(text: str, found: dict[str, str]) -> tuple[str, list[str]]:
    """Return a file of constraints with other versions, and a line for each version that differs."""
    lines, changes = [], []
    for line in text.splitlines():
        name, _, old = line.partition("==")
        new = found.get(normal(name), old)
        if new != old:
            changes.append(f"{name} {old} -> {new}")
        lines.append(f"{name}=={new}" if old else line)
    return "\n".join(lines) + "\n", changes


def with_newest(page: str, versions: dict[str, str]) -> str:
    """Return a page whose table shows other newest versions."""
    row = r"^(\| `([\w-]+)`[^|]*\| [\d.]+ \| )[\d.]+(?= \|$)"
    return re.sub(row, lambda found: found[1] + versions[found[2]], page, flags=re.MULTILINE)


def main(names: list[str]) -> int:
    """Move the versions and run the tests; return 1 if they fail, and 0 otherwise."""
    before = PINNED.read_text(encoding="utf-8")
    chosen = {normal(name) for name in names}
    unknown = chosen - {normal(name) for name in pins(before)}
    if unknown:
        print(f"constraints.txt pins no {', '.join(sorted(unknown))}.", file=sys.stderr)
        return 2
    kept = {name: version for name, version in pins(before).items() if chosen and normal(name) not in chosen}
    after, changes = moved(before, newest(kept))
    if not changes:
        print("Everything that constraints.txt pins is the newest that fits.")
        return 0
    print(*changes, sep="\n", flush=True)
    PROPOSED.parent.mkdir(exist_ok=True)
    PROPOSED.write_text(after, encoding="utf-8")
    files = {page: page.read_text(encoding="utf-8") for page in PAGES}
    PINNED.write_text(after, encoding="utf-8")
    for page, text in files.items():
        page.write_text(with_newest(text, pins(after)), encoding="utf-8")
    passed = False
    try:
        passed = not subprocess.run(["make", "test"], check=False, cwd=ROOT).returncode
    finally:
        if not passed:
            for path, text in (files | {PINNED: before}).items():
                path.write_text(text, encoding="utf-8")
            print(f"All files are restored; the versions that failed are in {PROPOSED.relative_to(ROOT)}.")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
