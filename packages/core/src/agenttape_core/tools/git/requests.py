"""Questions to git about a revision."""

from __future__ import annotations

import subprocess

from agenttape_core.errors import ConfigurationError


class Revision:
    """A revision in git's words, given by `option`. Raises `ConfigurationError` if it would be an option of git."""

    def __init__(self, name: str, option: str) -> None:
        if name.startswith("-"):
            raise ConfigurationError(f"{option} {name}: expected a commit, branch or tag")
        self.name = name
        self._option = option

    def ask(self, *words: str) -> bytes:
        """Return what git prints. Raises `ConfigurationError` if it can't find the revision or a repository."""
        try:
            ended = subprocess.run(["git", *words], capture_output=True, check=False)  # noqa: S603, S607
        except FileNotFoundError:
            raise ConfigurationError("git is not installed; it holds what to compare with") from None
        if ended.returncode:
            said = ended.stderr.decode(errors="replace").strip()
            raise ConfigurationError(f"git: {said}\n  name a commit, branch or tag: {self._option} main")
        return ended.stdout

    def tell(self, *words: str) -> str:
        """Return git's output as text, with unchanged names of files: see `ask`."""
        return self.ask(*words).decode("utf-8", "surrogateescape")
