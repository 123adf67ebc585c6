"""Install the wheels of dist/ on each Python that is here, and run the README's commands with them: `make wheels`.

Each environment is empty before, and gets the newest versions of what the README says to install, as a reader does.
Versions, given as arguments, choose among them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from tests.docs.test_console import BLOCK, FRAMEWORKS, performed
from tests.matrix.run import NAMES, ROOT, VERSIONS, python_of

README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^#> (.*)$", re.MULTILINE)
COMMANDS = ("python app.py", "agenttape show cassettes/weather.yaml", "agenttape init --example", "agenttape doctor")
READER = {"OPENAI_API_KEY": "any-text", "COLUMNS": "110", "NO_COLOR": "1", "PYTEST_ADDOPTS": f'-W "{FRAMEWORKS}"'}
OURS = ("AGENTTAPE_", "PYTEST_", "PYTHON", "CI", "BUILD_NUMBER")
"""How variables begin that a reader doesn't have."""


def installed(version: str, python: str) -> Path:
    """Return the folder of programs of a new environment that has what the README says, and our other packages."""
    folder = ROOT / f".venv-wheels-{version}"
    subprocess.run([python, "-m", "venv", "--clear", "--without-pip", folder], check=True)
    (words,) = re.findall(r"^pip install (.*)$", README, re.MULTILINE)
    asked = [word.strip("'") for word in words.split() if not word.startswith(("./", "'./"))]
    wheels = {name: str(next((ROOT / "dist").glob(f"agenttape_{name}-*.whl"))) for name in NAMES}
    wheels["core"] += "[cli]"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    pip += ["--python", str(folder / "bin" / "python")]
    subprocess.run([*pip, "install", *wheels.values(), *asked], check=True)
    subprocess.run([*pip, "check"], check=True)
    return folder / "bin"


def failures(programs: Path, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Return what a reader of the README finds otherwise than it says."""
    found = []
    project = folder / "quick"
    project.mkdir()
    for block in BLOCK.finditer(README):
        if block["file"]:
            (project / block["file"]).write_text(block["text"], encoding="utf-8")
        elif (now := performed(block["text"], project, dict(environment))) != block["text"]:
            found.append(f"The README shows\n{block['text']}and this was printed:\n{now}")
    (folder / "app.py").write_text("\n".join(SNIPPET.findall(README)), encoding="utf-8")
    shown = "".join(f"{line}\n" for line in PRINTED.findall(README))
    for command in COMMANDS:
        program, *words = command.split()
        run = [str(programs / program), *words]
        done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or (program == "python" and done.stdout != shown):
            found.append(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return found


def main(versions: list[str]) -> bool:
    """Print for each Python whether the README holds there, and return whether it failed on one."""
    sys.path.append(str(ROOT / "examples"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    failed = False
    for version in versions or VERSIONS:
        python = python_of(version)
        if python is None:
            print(f"There is no Python {version} here.")
            failed |= version in versions  # one that was asked for
            continue
        programs = installed(version, python)
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        with import_module("weather_agent.server").OpenAILoopback() as server, tempfile.TemporaryDirectory() as folder:
            reader = kept | READER | {"PATH": path, "OPENAI_BASE_URL": server.base_url}
            found = failures(programs, Path(folder), reader)
        print(f"Python {version}: {'the README fails' if found else 'the README holds'}", *found, sep="\n", flush=True)
        failed = failed or bool(found)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
