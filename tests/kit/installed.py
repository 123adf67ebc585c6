"""Packages that are installed, as far as their files tell."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import types
    from pathlib import Path


def install(folder: Path, distribution: str, module: str, source: str) -> types.ModuleType:
    """Install a distribution with one module, and load that.

    Args:
        folder: An empty folder; the packages go into its `site-packages`.
        distribution: The name of the distribution; empty for a module that was only put there.
        module: The full name of its module.
        source: The code of it.
    """
    site = folder / "site-packages"
    path = site.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    if distribution:
        facts = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n", encoding="utf-8"
        )
        (facts / "RECORD").write_text(f"{path.relative_to(site).as_posix()},,\n", encoding="utf-8")
    spec: Any = importlib.util.spec_from_file_location(module, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
