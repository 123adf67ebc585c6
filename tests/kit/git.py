"""Git, as a test uses it."""

from __future__ import annotations

import subprocess


def git(*words: str) -> str:
    """Run git in the current folder, and return what it prints."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *words], check=True, capture_output=True, text=True).stdout.strip()
