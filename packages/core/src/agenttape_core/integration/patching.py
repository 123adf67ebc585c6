"""The process of a framework, as sessions have to treat it: functions to patch, hosts, files, packages.

`register_seam` names functions that make ids or tell the time, `register_run_ids` modules that draw ids of runs which
only handlers see, and `register_backoff` functions that sleep before a retry. `register_tracer` names hosts that a
tracer reports to, `register_packages` the packages whose versions a cassette names, and `register_thread_files` what
yields each `Stored` part of the files in which a framework keeps threads.

`Wrappers` wrap functions of a framework, and `PatchedOnImport` one of a module that need not be imported yet.
`ConnectedOnImport` does more with such a module.
"""

from agenttape_core.freeze import register_backoff, register_run_ids, register_seam
from agenttape_core.guard import register_tracer
from agenttape_core.guard.patching import Wrappers
from agenttape_core.lifecycle.header import register_packages
from agenttape_core.lifecycle.patched_on_import import ConnectedOnImport, PatchedOnImport
from agenttape_core.lifecycle.thread_files import Stored, register_thread_files

__all__ = [
    "ConnectedOnImport",
    "PatchedOnImport",
    "Stored",
    "Wrappers",
    "register_backoff",
    "register_packages",
    "register_run_ids",
    "register_seam",
    "register_thread_files",
    "register_tracer",
]
