"""Side effects: the connections, files and processes that code reaches while a session records.

`sys.addaudithook` sees each connection, each file that is opened for writing, made, changed or removed, and each
process that Python code starts; `guard.sends` sees what goes out on a connection that was open before. Both are
installed while there is a watcher, and the hook, which can't be removed, only tests one name afterwards.

Not side effects: reading; whatever is done by importing a library, such as byte code that is kept; what log
handlers write, and what goes to the terminal; what our own storage writes; the bare look-up of a name; answers of a
server in this process; a database in memory; telemetry.

Limits. C code with its own sockets or files raises no events: `clients` lists the packages known to do so, and `native`
decides whether the code of a call comes near them, other than through a boundary (`interfaces`). Writing to a handle
that was opened before raises none either: a call whose code comes near such a file, pipe or mapped memory counts as
having written to it (`handles`).
"""

from agenttape_core.side_effects.interfaces import INTERFACES, Interface, mark_boundary, register_frameworks
from agenttape_core.side_effects.native import UnwatchedCode
from agenttape_core.side_effects.source_lines import SourceLine, function_of, line_of
from agenttape_core.side_effects.watching import SideEffectEvent, watching_side_effects

__all__ = [
    "INTERFACES",
    "Interface",
    "SideEffectEvent",
    "SourceLine",
    "UnwatchedCode",
    "function_of",
    "line_of",
    "mark_boundary",
    "register_frameworks",
    "watching_side_effects",
]
