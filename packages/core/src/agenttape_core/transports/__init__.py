"""HTTP as a boundary, without patching: transports that a user gives to a client.

`agenttape_core.transports.httpx` and `agenttape_core.transports.httpx2` have the same two names, `TapeTransport` and
`AsyncTapeTransport`. Each imports its client; the other modules here know neither.
"""
