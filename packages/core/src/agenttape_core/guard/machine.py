"""Processes that libraries start to look at the machine: `uname`, `ldconfig`, `lscpu`. A replay lets them through.

They don't reach the outside, change any state, or depend on the run. A program that calls `platform.platform()`, as the
SDKs of the providers do for their headers, starts a process without knowing it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping

from agenttape_core.guard.caller import is_library

_ANY = frozenset[str]()

_LOOKING: Mapping[str, frozenset[str]] = {
    # The standard library.
    "platform": _ANY,  # uname -p, file -b, ver: the processor, the system and its version
    "uuid": _ANY,  # ip, ifconfig, arp, lanscan, netstat: the hardware address, for uuid1 and getnode
    "ctypes.util": _ANY,  # ldconfig, gcc, ld, objdump: where a library of C is
    "ctypes._aix": _ANY,  # dump: the same
    "webbrowser": frozenset({"register_standard_browsers"}),  # xdg-settings: which browser is the default one
    "_osx_support": _ANY,  # sw_vers, xcrun: for sysconfig and platform, on macOS
    "_aix_support": _ANY,  # lslpp: the same, on AIX
    # Packages that do the same, at import or at first use.
    "distro.distro": _ANY,  # lsb_release, uname, oslevel: the distribution
    "git.cmd": frozenset({"Git.refresh"}),  # git version, when GitPython is imported
    "joblib.externals.loky.backend.utils": frozenset({"_posix_recursive_kill"}),  # pgrep: the children of a worker
    "joblib.externals.loky.backend.context": _ANY,  # lscpu, sysctl: the number of physical cores, for scikit-learn
    "matplotlib.font_manager": frozenset({"_get_fontconfig_fonts", "_get_macos_fonts"}),  # fc-list, system_profiler
    "numexpr.cpuinfo": _ANY,  # uname -m, at import
}
"""By module: the functions, by their qualified names, or all of them."""


def looks_at_machine() -> bool:
    """Return True if the process that is about to start is one of those: its starter is on this thread's stack."""
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - gives the stack without building a list
    while frame is not None:
        functions = _LOOKING.get(str(frame.f_globals.get("__name__")))
        if functions is not None and (not functions or frame.f_code.co_qualname in functions):
            # A module of the user's may have the same name.
            return is_library(frame.f_code.co_filename)
        frame = frame.f_back
    return False
