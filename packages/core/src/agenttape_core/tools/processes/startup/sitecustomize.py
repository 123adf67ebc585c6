"""Begins in every Python that a command starts: `site` imports this, as the folder is first on `PYTHONPATH`.

Then it makes way for the module of the same name that would have been imported without it.
"""

import sys


def _begin() -> None:
    import agenttape_startup  # type: ignore[import-not-found] # beside this file, as it must not import the package

    ours = sys.modules.pop(__name__)
    sys.path[:] = [entry for entry in sys.path if entry != agenttape_startup.FOLDER]
    agenttape_startup.begin()
    try:
        import sitecustomize  # type: ignore[import-not-found] # noqa: F401 - another one: this is out of the way
    except ModuleNotFoundError as missing:
        if missing.name != __name__:
            raise
        sys.modules[__name__] = ours  # the import of this module looks for it there when it ends


if __name__ == "sitecustomize":  # not when it is imported as a part of the package
    _begin()
