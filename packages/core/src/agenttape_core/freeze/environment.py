"""The environment variables of one session. Pure: the variables themselves are in `variables`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from agenttape_core.locks import RLock

Key = TypeVar("Key", str, bytes)

_OF_THE_MACHINE = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "USERNAME", "USERDOMAIN", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "HOSTNAME"),
        *(
            "COMPUTERNAME",
            "PATH",
            "PATHEXT",
            "PWD",
            "OLDPWD",
            "SHELL",
            "SHLVL",
            "COMSPEC",
            "_",
            "TMP",
            "TEMP",
            "TMPDIR",
        ),
        *("APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR"),
        *("TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "DISPLAY", "WAYLAND_DISPLAY", "CI"),
        *("VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSLKEYLOGFILE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY", "WS_PROXY", "WSS_PROXY"),
    }
)
_FAMILIES = (
    *("AGENTTAPE_", "PYTEST_", "PYTHON", "COVERAGE_", "COV_CORE_", "TOX_", "NOX_", "UV_", "PIP_", "CONDA_"),
    *("XDG_", "LD_", "DYLD_", "SSH_", "GIT_", "OTEL_", "LANGSMITH_", "LANGCHAIN_TRACING", "PYDANTIC_"),
)


def is_of_the_machine(name: str) -> bool:
    """Return True if a variable is about the machine, the process or a tool around the run: it is never recorded."""
    upper = name.upper()
    return upper in _OF_THE_MACHINE or upper.startswith(_FAMILIES)


def _is_text(value: str) -> bool:
    """Return True if a value is text: bytes that are not UTF-8 come as lone surrogates (PEP 383), and are not kept."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


class Environment:
    """The environment variables that one session knows. Safe to use from many threads.

    `recorded` has the redacted values of the cassette, `None` for an absent variable; with `learns`, variables that it
    doesn't hold are remembered, to be recorded.
    """

    def __init__(self, recorded: Mapping[str, str | None], *, learns: bool) -> None:
        self._recorded = dict(recorded)
        self._learns = learns
        self._learned: dict[str, str | None] = {}
        self._before: dict[str, str | None] = {}
        self._removed: set[str] = set()
        self._listed: dict[str | bytes, str | bytes] = {}
        self._lock = RLock()

    @property
    def learned(self) -> dict[str, str | None]:
        """The variables that were read and not recorded before, with their real values, in the order of the names."""
        with self._lock:
            return dict(sorted(self._learned.items()))

    def value(self, name: str, live: str | None) -> str | None:
        """Return the value of a variable in this session. `live` is its real value, `None` if it's absent."""
        with self._lock:
            if name in self._before:
                return live
            if name in self._recorded:
                from agenttape_core.redaction.pseudonyms import holds_pseudonym  # the session has imported it

                recorded = self._recorded[name]
                # What a pseudonym stands for is not in the cassette; whoever has a secret of that name uses it.
                hidden = live is not None and holds_pseudonym(recorded, name)
                return live if hidden else recorded
            if self._learns and _is_text(name) and _is_text(live or ""):
                return self._learned.setdefault(name, live)
            return live

    def changed(self, name: str, before: str | None, now: str | None) -> None:
        """Note that the session's code set or removed a variable, which makes it live from then on.

        A variable that is removed and put back unchanged counts as unchanged: `mock.patch.dict` does so with all
        variables. `before` and `now` are its real values, `None` if it's absent.
        """
        with self._lock:
            original = self._before.setdefault(name, before)
            if now is None:
                self._removed.add(name)
            elif name in self._removed:
                self._removed.discard(name)
                if now == original:
                    del self._before[name]

    def as_listed(self, key: Key) -> Key:
        """Return the one object that represents a key when the environment is iterated over."""
        return self._listed.setdefault(key, key)  # type: ignore[return-value]

    def is_listed(self, key: str | bytes) -> bool:
        """Return True if a key is such an object: `dict(os.environ)` reads each variable by the key it has just got."""
        return self._listed.get(key) is key
