"""The option of the commands that look for secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agenttape_core.settings import Settings, load_settings

Function = Callable[..., Any]


def redaction_off_option(function: Function) -> Function:
    """Add the option that names kinds of secrets not to look for."""
    return click.option(
        "--redaction-off",
        "off",
        multiple=True,
        metavar="KIND",
        help="A kind of secret to keep as it is, such as email. Repeatable; by default those of the project.",
    )(function)


def redacting_settings(off: tuple[str, ...]) -> Settings:
    """Return the settings of the project, with the kinds that the option names in their place.

    Raises:
        ConfigurationError: If the kind doesn't exist, or a setting isn't valid.
    """
    settings = load_settings()
    return settings.chosen({"redaction_off": off}) if off else settings
