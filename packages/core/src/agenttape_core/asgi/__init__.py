"""For servers: a cassette for each request that an ASGI application answers, so that it can be begun again offline."""

from agenttape_core.asgi.inbound import TapeInbound

__all__ = ["TapeInbound"]
