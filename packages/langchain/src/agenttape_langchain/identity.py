"""The identity of models without identifying parameters.

LangChain gets them from the model; a model written for a single company often has none, and is then identified by its
class alone. LangChain's own caches confuse two such models as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseLanguageModel

from agenttape_core.integration import Boundary, Session, as_recorded, public_fields, warn_unless_identified


def with_identity(
    session: Session, boundary: Boundary, model: BaseLanguageModel[Any], seen: Mapping[str, Any], base: type
) -> Mapping[str, Any]:
    """Return the request of a model, which names which model is asked even if the model has no identifying parameters.

    Args:
        session: The session.
        boundary: The family of the call.
        model: The model.
        seen: The request as callbacks see it.
        base: The framework's class, whose own attributes do not count.
    """
    if seen.get("model") or model._identifying_params:
        return seen
    identity = public_fields(model, base)
    warn_unless_identified(session, boundary.kind, model, identity, base)
    return as_recorded(session, boundary, {**identity, **seen}, seen) if identity else seen
