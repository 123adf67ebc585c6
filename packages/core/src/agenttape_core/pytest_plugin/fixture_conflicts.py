"""The file in which pytest-recording keeps the HTTP of a test: it is named as ours are."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttape_core.errors import ConfigurationError


def refuse_file_of_recording(request: pytest.FixtureRequest, path: Path | str) -> None:
    """Refuse a cassette that would be the file of pytest-recording for the same test.

    Args:
        request: The request of the test, for the fixtures of that plugin
            (https://github.com/kiwicom/pytest-recording).
        path: The path of the cassette, or its URL.

    Raises:
        ConfigurationError: If it is the same file.
    """
    if request.node.get_closest_marker("vcr") is None or not request.config.pluginmanager.has_plugin("recording"):
        return
    folder, name = (request.getfixturevalue(fixture) for fixture in ("vcr_cassette_dir", "default_cassette_name"))
    if Path(path).resolve() == Path(folder, f"{name}.yaml").resolve():
        raise ConfigurationError(
            f"{path} is where pytest-recording keeps the HTTP of this test (its marker vcr), so one would replace the "
            "other\n  give this cassette a name: @pytest.mark.cassette('NAME'); or let the fixture vcr_cassette_dir "
            "return another folder"
        )
