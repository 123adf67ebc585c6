"""HTTP as a boundary, without patching: transports that a user hands to a client.

`agenttape_core.transports.httpx` and `agenttape_core.transports.httpx2` have the same two names, `TapeTransport` and
`AsyncTapeTransport`. Each needs its client, and only it imports that. What they share knows neither client.
"""
