"""Passwords in command lines: `mysql -pX`, `openssl -k X`, `smbclient -U user%X`, `echo X | docker login`.

One search finds all options; their letter tells which commands take a password behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.literals import places
from agenttape_core.redaction.detection.values import is_placeholder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

OPTION = b" -"
_QUOTE = r"""(?P<quote>\\{0,3}["'])?"""
_WORD = r"""(?P<secret>(?(quote)[^"'\\\n]{1,256}|(?!-)[^\s"'\\;|&<>()`]{3,256}))"""
_ARGUMENTS = r"\b(?:[ ][^\n|;&]{0,200})?\Z"
_SIGN = Lazy("[0-9!@#$%^&*?+=]")


class _Option(NamedTuple):
    """An option behind which a command takes a password."""

    command: Lazy
    """The end of what stands before the option."""
    value: Lazy
    """The option and its value."""
    is_word: bool = False
    """True if the value may be a word of a language, as the option is used for nothing else."""


def _option(command: str, option: str, *, value: str = _QUOTE + _WORD, is_word: bool = False) -> _Option:
    return _Option(Lazy(command), Lazy(option + value), is_word)


_LOGIN = r"(?:docker|podman|nerdctl|buildah|skopeo|oras|helm|oc|cf|az|jf)(?:[ ]registry)?[ ]login"
_HTTPIE = r"""(?:\A|[\s;&|$(`"'])(?:https?|xhs?)(?:[ ][^\n|;&]{0,200})?\Z"""
_USER_AND = r"""[^\s:"'\\-][^\s:"'\\]{0,127}:(?P<secret>(?(quote)[^"'\\\n]|[^\s"'\\]){1,256})"""
_SAMBA_USER = r"""[^\s%"'\\]{1,64}(?:\\{1,4}[^\s%"'\\]{1,64})?%(?P<secret>(?(quote)[^"'\\\n]|[^\s"'\\]){3,256})"""
_OPTIONS = {
    ord("p"): (
        _option(r"sshpass\Z", "[ ]-p[ ]?", is_word=True),
        _option(r"mysql(?:dump|admin)?" + _ARGUMENTS, "[ ]-p", is_word=True),
        _option(_LOGIN + _ARGUMENTS, "[ ]-p[ ]", is_word=True),
        _option(r"zip" + _ARGUMENTS, "[ ]-P[ ]", is_word=True),
        _option(r"\b7za?" + _ARGUMENTS, "[ ]-p", is_word=True),
        _option(r"\b(?:mongo(?:sh|dump|restore|export|import)?|cqlsh|mosquitto_[ps]ub)" + _ARGUMENTS, "[ ]-[pP][ ]"),
        _option(r"\b(?:sqlcmd|osql|isql|bcp|ipmitool)" + _ARGUMENTS, "[ ]-P[ ]?"),
        _option(r"\b(?:plink|pscp|psftp|putty)(?:\.exe)?" + _ARGUMENTS, "[ ]-pw[ ]"),
    ),
    ord("k"): (_option(r"\bopenssl" + _ARGUMENTS, "[ ]-[kK][ ]"),),
    ord("w"): (
        _option(r"\bldap[a-z]{3,8}" + _ARGUMENTS, "[ ]-w[ ]"),
        _option(r"\bsecurity[ ](?:add|set)-[a-z-]{1,40}" + _ARGUMENTS, "[ ]-w[ ]"),
    ),
    ord("u"): (
        _option(
            r"\b(?:smb[a-z]{3,8}|rpcclient|winexe|wbinfo|net)" + _ARGUMENTS, "[ ]-U[ ]?", value=_QUOTE + _SAMBA_USER
        ),
        _option(r"\blftp" + _ARGUMENTS, "[ ]-u[ ]", value=_QUOTE + r"[^\s,\"'\\]{1,64}," + _WORD),
    ),
    ord("a"): (
        _option(r"\b(?:redis|valkey)-cli" + _ARGUMENTS, "[ ]-a[ ]", is_word=True),
        _option(_HTTPIE, "[ ]-a[ =]{1,4}", value=_QUOTE + _USER_AND, is_word=True),
    ),
    ord("-"): (_option(_HTTPIE, "[ ]--auth[ =]{1,4}", value=_QUOTE + _USER_AND, is_word=True),),
}
_LONG = (b" --auth", b" --password-stdin", b" --stdin")
_READS_INPUT = (b" --password-stdin", b" --stdin", b" -s ")
_PIPED = Lazy(
    r"""(?:echo|printf)(?:[ ]-[neE]{1,2})?(?:[ ]{1,4}\\{0,3}["']?%s(?:\\n)?\\{0,3}["']?)?[ ]{1,4}"""
    r"""(?P<quote>\\{0,3}["'])?"""
    r"""(?P<secret>(?(quote)[^"'\\\n]{1,256}|[^\s"'\\;|&<>()`]{3,256}))(?(quote)(?P=quote))[ ]{0,4}\|[^|\n]{0,120}\Z"""
)
"""A text that another command reads as its password."""
_SUDO = Lazy(r"\bsudo\Z")
_LONGEST_COMMAND = 240


def may_take_password(view: View, at: int) -> bool:
    """Return True if an option that begins at a blank may be one of those that are looked at."""
    letter = view.low[at + len(OPTION)] if at + len(OPTION) < len(view.low) else 0
    if letter == ord("-"):
        return view.low.startswith(_LONG, at)
    return letter in _OPTIONS or view.low.startswith(_READS_INPUT, at)


def find_command_passwords(view: View) -> Iterator[Finding]:
    """Find passwords behind the options of commands, and those that are piped into one."""
    for at in places(view.raw, OPTION) if b"-" in view.raw else ():
        if not may_take_password(view, at):
            continue
        first = max(0, at - _LONGEST_COMMAND)
        before = view.text[first:at]
        for option in _OPTIONS.get(view.low[at + len(OPTION)], ()):
            match = option.value.match(view.text, at)
            if match and _is_given(match["secret"], is_word=option.is_word) and option.command.search(before):
                yield view.finding(*match.span("secret"), SECRET)
        is_reader = view.low.startswith(_READS_INPUT[:-1], at) or (
            view.low.startswith(_READS_INPUT[-1], at) and _SUDO.search(before) is not None
        )
        piped = _PIPED.search(before) if is_reader else None
        if piped and _is_given(piped["secret"], is_word=True):
            yield view.finding(first + piped.start("secret"), first + piped.end("secret"), SECRET)


def _is_given(secret: str, *, is_word: bool) -> bool:
    if is_placeholder(secret) or secret.isdigit():
        return False
    return is_word or _SIGN.search(secret) is not None
