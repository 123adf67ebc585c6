"""Stand-ins made of a cassette: no provider package, no key, no network, no session. One module for each interface."""
