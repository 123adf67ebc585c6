"""Puts a defect back in a Python that a test starts, before its program begins: `site` imports this.

Then it makes way for the module of that name which would have been imported without it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def _begin() -> None:
    here = Path(__file__).parent
    ours = sys.modules.pop("sitecustomize")
    sys.path[:] = [entry for entry in sys.path if entry != str(here)]
    spec = spec_from_file_location("put_back", here.parent / "put_back.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.named().undoes()
    try:
        import_module("sitecustomize")
    except ModuleNotFoundError:
        sys.modules["sitecustomize"] = ours  # the import of this module looks for it there when it ends


if __name__ == "sitecustomize":
    _begin()
