"""The page about settings lists all that there are, with the defaults that they have."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

from agenttape_core import use_cassette
from agenttape_core.settings import Settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
SETTINGS = PAGE.read_text(encoding="utf-8").partition("## Settings\n")[2].partition("\n## ")[0]
LISTED = re.findall(r"^\| `(\w+)` \| (.*?) \|", SETTINGS, re.MULTILINE)
ROWS = dict(LISTED)
CALLS_ONLY = {"self", "name_or_path", "redact", "auto", "vary", "fakes", "to"}
SETTINGS_ONLY = {"redaction_key", "redaction_rules", "run_id", "prices", "retirements"}


def test_every_setting_is_listed() -> None:
    """The table has the settings, each once, in their order, and no others."""
    assert [name for name, _ in LISTED if not name.isupper()] == list(Settings._fields)


def test_defaults_are_those_of_the_settings() -> None:
    """A default that is a value is shown as it is written into the file."""
    shown = {name: re.match("`([^`]*)`", default) for name, default in ROWS.items()}
    values = {name: json.loads(default[1]) for name, default in shown.items() if default and not name.isupper()}
    settings = json.loads(json.dumps(Settings()._asdict()))
    assert values == {"on_unused": "fail"} | {name: settings[name] for name in values if name != "on_unused"}
    assert {name for name in settings if settings[name] is None} == settings.keys() - values.keys() | {"on_unused"}


def test_settings_are_options_of_calls() -> None:
    """What is a setting is an option of `use_cassette`, and the other way round, but for those that the page names."""
    options = set(inspect.signature(use_cassette.__init__).parameters)
    assert options - CALLS_ONLY == set(Settings._fields) - SETTINGS_ONLY
