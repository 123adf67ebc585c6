"""The guard: during a replay nothing reaches the outside, from any thread and with any client.

`sys.addaudithook` sees every connection, name look-up and child process that Python code starts, whatever library it
goes through. The hook is installed once per process, at the first use, and only tests one name while no guard is open.

How an allowed *name* opens the addresses behind it: clients ask the resolver for a name and then connect to a number.
The hook sees the name before it is looked up, but not the answer. So while guards are open, the resolver functions of
the `_socket` module (through which `socket.getaddrinfo` goes, however it was imported) are wrapped, and every address
they give for an allowed name may be connected to until the guard closes. No second look-up is made, whose answer could
differ. A socket that is told to connect to a name looks it up before its event, so these methods are wrapped as well.

Looking up a loopback name or a numeric address leaves nothing and is never refused, so servers may bind and listen.

Limits. C code with sockets of its own (grpc, libpq, libcurl, uvloop's) raises no audit events. Neither does
`multiprocessing` when it spawns, which it also does merely to track its own resources; its Unix sockets, by which it
speaks to what it has spawned, are not refused either. A forked child keeps the guard;
another child is a process of its own, which is why starting one needs `egress={"subprocess"}`. A `gethostbyname` that
was imported by name before the first guard is checked, but its answer for an allowed name is not remembered.
"""

from agenttape_core.guard.hosts import LOOPBACK, SUBPROCESS
from agenttape_core.guard.policy import Guard
from agenttape_core.guard.process import guarding
from agenttape_core.guard.tracers import register_tracer, tracer_hosts

__all__ = ["LOOPBACK", "SUBPROCESS", "Guard", "guarding", "register_tracer", "tracer_hosts"]
