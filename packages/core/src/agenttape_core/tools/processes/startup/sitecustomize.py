# mypy: allow-untyped-defs, allow-untyped-calls
"""Begins in every Python that a command starts: `site` imports this, as the folder is first on `PYTHONPATH`.

Then it makes way for the module of the same name that would have been imported without it.

`site` prints an exception from `sitecustomize`, and runs the program all the same. So our code must never leave this by
an exception: a process that can't be set up ends here, before the first line of its program. A command may start any
Python, so each since 2.7 must be able to read this file: it has no annotations, which would be an error there.
"""

import os
import sys


def _begin():  # noqa: ANN202
    import agenttape_startup  # type: ignore[import-not-found] # beside this, as it must not import the package

    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(__file__)]  # noqa: PTH120
    return agenttape_startup.begin()


def _or_end(step):  # noqa: ANN001, ANN202
    """Take a step, or end the process: whatever it raises, the program must not run."""
    try:
        return step()
    except BaseException as error:  # noqa: BLE001 - as above
        try:
            reason = type(error).__name__ + ": " + str(error)
            sys.stderr.write("agenttape: not run, as AgentTape could not be set up: " + reason + "\n")
            sys.stderr.flush()
        finally:
            os._exit(2)


def _make_way():  # noqa: ANN202
    ours = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found] # noqa: F401 - another one: this is out of the way
    except ModuleNotFoundError as missing:
        if missing.name != __name__:
            raise
        sys.modules[__name__] = ours  # the import of this module looks for it there when it ends


if __name__ == "sitecustomize":  # not when it is imported as a part of the package
    _check = _or_end(_begin)
    try:
        _make_way()
    finally:  # whatever other start-up code has done
        _or_end(_check)
