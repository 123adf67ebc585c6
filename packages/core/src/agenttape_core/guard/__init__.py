"""The guard: during a replay, no thread and no client can reach the outside.

`sys.addaudithook` sees every connection, name look-up and child process that Python code starts, whatever library it
goes through. The hook is installed once per process, at the first use, and only tests one name while no guard is open.

How an allowed *name* opens the addresses behind it: clients ask the resolver for a name and then connect to a number.
The hook sees the name before it is looked up, but not the answer.

So while guards are open, they are shown the answers (`lookups`), and every address that is given for an allowed name
may be connected to until the guard closes. A socket that connects to a name looks it up before its event, so these
methods are wrapped as well.

Looking up a loopback name or a numeric address sends no packet and is never refused, so servers may bind and listen.

Four things raise no event: a send on a connection that was open before (`sends`), the use of its number or of a pipe
(`policy`), the function by which `multiprocessing` starts its processes, and C code with its own sockets (grpc,
libpq, libcurl, uvloop). The first three are wrapped while guards are open, and the last is out of reach.

The Unix sockets by which `multiprocessing` talks to the processes it has started aren't refused. A forked child keeps
the guard, and a spawned child gets its own session (`lifecycle.children`); any other process is independent, which is
why starting one needs `allow_hosts={"subprocess"}`. A `gethostbyname` that was imported by name before the first guard
is checked, but its answer for an allowed name is not remembered.
"""

from agenttape_core.guard.hosts import LOOPBACK, OF_PROGRAM, SUBPROCESS, check_hosts, of_program
from agenttape_core.guard.policy import Guard
from agenttape_core.guard.process import exempt_thread, guarding, how_to_end, note_after_replay, warn_of_late
from agenttape_core.guard.tracers import in_telemetry, is_tracer, register_tracer, tracer_hosts

__all__ = [
    "LOOPBACK",
    "OF_PROGRAM",
    "SUBPROCESS",
    "Guard",
    "check_hosts",
    "exempt_thread",
    "guarding",
    "how_to_end",
    "in_telemetry",
    "is_tracer",
    "note_after_replay",
    "of_program",
    "register_tracer",
    "tracer_hosts",
    "warn_of_late",
]
