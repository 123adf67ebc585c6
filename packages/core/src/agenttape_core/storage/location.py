"""The location of a cassette: a path, or a URL that fsspec reaches."""

from __future__ import annotations

import re
from pathlib import Path

from agenttape_core.errors import ConfigurationError
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple

_URL = Lazy(r"(?:[a-z0-9+.-]+::)*(?P<scheme>[a-z][a-z0-9+.-]+)://(?P<rest>.*)", re.IGNORECASE | re.DOTALL)


class CassetteUrl(str):
    """The URL of a cassette, such as `s3://bucket/weather.yaml`. It holds no credentials."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The part after the last slash."""
        return self.rpartition("/")[2]

    @property
    def folder(self) -> CassetteUrl:
        """The part before the last slash, which stays if it is one of those after the scheme."""
        folder = self.rpartition("/")[0]
        return CassetteUrl(f"{folder}/" if folder.endswith("/") else folder)

    def with_name(self, name: str) -> CassetteUrl:
        """The URL of another file in the same folder."""
        return self.folder.joined(name)

    def joined(self, name: str) -> CassetteUrl:
        """The URL of a file in this folder."""
        return CassetteUrl(f"{self}{name}" if self.endswith("/") else f"{self}/{name}")


Location = Path | CassetteUrl


def below(folder: Location, key: str) -> Location:
    """Return the file at a path in a folder."""
    return folder / key if isinstance(folder, Path) else folder.joined(key)


class Entry(NamedTuple):
    """A file that a store lists."""

    key: str  # its path from the listed folder; empty for the listed file itself
    size: int | None  # its size in bytes, if the store lists that
    etag: str  # the version that the store keeps of its bytes; empty if it keeps none
    modified: str  # the moment of its last change as the store writes it; empty if it keeps none


def split_glob(location: Location) -> tuple[Location, str]:
    """Return the folder before the first `*` of a location, and the rest as a pattern; that is empty without a `*`."""
    head, star, _ = str(location).partition("*")
    if not star:
        return location, ""
    folder = head[: head.rfind("/") + 1]
    if not isinstance(location, CassetteUrl):
        return Path(folder), str(location)[len(folder) :]
    return CassetteUrl(folder if folder.endswith("://") else folder.rstrip("/")), location[len(folder) :]


def refuse_read_only(location: Location) -> None:
    """Refuse, with `ConfigurationError`, to record to a URL of a web server, which can't be written."""
    match = _URL.fullmatch(location) if isinstance(location, CassetteUrl) else None
    if match is not None and match["scheme"].lower() in {"http", "https"}:
        raise ConfigurationError(
            f"{location}: a web server takes no cassette, so nothing can be recorded there\n"
            "  record to a file or an object store, and replay from this URL"
        )


def location_of(name: Path | str) -> Location:
    """Return the location that a user names: a URL if it has a scheme, else a path; `file://` is a path too.

    Raises:
        ConfigurationError: The URL holds credentials, or a `file://` URL is one of another machine.
    """
    if isinstance(name, (Path, CassetteUrl)):
        return name
    match = _URL.fullmatch(name) if "://" in name else None
    if match is None:
        return Path(name)
    scheme, rest = match["scheme"].lower(), match["rest"]
    host = rest.partition("/")[0]
    if "?" in rest or ":" in host.rpartition("@")[0]:
        raise ConfigurationError(
            f"{scheme}://…: the URL of a cassette holds no credentials and no query, as it is printed and kept\n"
            "  configure them where fsspec looks for them: its configuration files or environment variables"
        )
    if scheme != "file":
        return CassetteUrl(name)
    if host not in {"", "localhost"}:
        raise ConfigurationError(f"{name}: a file:// URL has three slashes: file:///folder/weather.yaml")
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return Path(url2pathname(urlsplit(name).path))
