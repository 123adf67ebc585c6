"""Recordings that wait for review beside their cassettes: read, and accepted or rejected with their dependents."""

from agenttape_core.tools.review.deciding import Decided, accept, reject
from agenttape_core.tools.review.pending import Pending, PendingCall, pending_in, pending_of

__all__ = ["Decided", "Pending", "PendingCall", "accept", "pending_in", "pending_of", "reject"]
