"""The recordings of one model for a stand-in, found whatever the settings and the spelling of tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttape_core import ConfigurationError
from agenttape_core.integration import Boundary, Crossing, Session, value_codec
from agenttape_core.integration.stand_ins import Exhausted, Pace, Setting, distinct_settings, meaning_of, open_replay
from agenttape_llamaindex.llms import CHAT, COMPLETION
from agenttape_llamaindex.requests import params_body

_CONTENT = frozenset({"messages", "prompts"})

Body = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Makes a request of parameters."""


class RecordedModel:
    """The chats and completions of one model in a cassette. Each instance replays them once from the start.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        model: The model, if the cassette holds several.
        exhausted: The answer to a request that is made more often than it was recorded.
        pace: The time that an answer takes.

    Raises:
        CassetteError: If there is no such cassette, or it cannot be read.
        ConfigurationError: If it holds no calls of an LLM, or none of that model.
    """

    def __init__(self, cassette: str | Path, model: str | None, exhausted: Exhausted | None, pace: Pace | None) -> None:
        self.session: Session = open_replay(cassette, exhausted=exhausted, pace=pace)
        self._settings = {kind: self._recorded(kind, model) for kind in (CHAT.kind, COMPLETION.kind)}
        if not any(self._settings.values()):
            raise self._nothing(model)

    def __deepcopy__(self, memo: dict[int, object]) -> RecordedModel:
        """Return itself: a copy of a stand-in continues in the cassette where the original is."""
        return self

    def _recorded(self, kind: str, model: str | None) -> list[Setting]:
        source = self.session.source
        requests = (source.interaction(row.number).request for row in source.entries if row.kind == kind)
        stripped = ({key: value for key, value in request.items() if key not in _CONTENT} for request in requests)
        return [setting for setting in distinct_settings(stripped) if model in {None, setting.model}]

    def _nothing(self, model: str | None) -> ConfigurationError:
        every = [setting for kind in self._settings for setting in self._recorded(kind, None)]
        if not every:
            return ConfigurationError(
                f"{self.session.path} holds no chat and no completion, so no LLM can be made of it\n"
                "  record a run that calls an LLM, or name another cassette"
            )
        return ConfigurationError(
            f"{self.session.path} holds no call of the model {model!r}; it holds calls of "
            f"{', '.join(sorted({repr(setting.model) for setting in every}))}\n"
            "  name one of them: ReplayLLM(..., model=...)"
        )

    def has(self, boundary: Boundary) -> bool:
        """Return whether there are recordings of a kind."""
        return bool(self._settings[boundary.kind])

    @property
    def is_chat_model(self) -> bool:
        """True if the model received prompts as chats: it had chats without tools, or only chats."""
        chats = self._settings[CHAT.kind]
        return bool(chats) and (not self.has(COMPLETION) or any(not setting.meaning.tools for setting in chats))

    @property
    def has_tools(self) -> bool:
        """True if the model was given tools."""
        return any(setting.meaning.tools for setting in self._settings[CHAT.kind])

    def forced(self, tools: Sequence[Any]) -> bool:
        """Return whether the model with these tools was ever forced to call one: not every provider supports that."""
        wanted = meaning_of({"tools": tools}).tools
        choices = [setting.meaning.choice for setting in self._settings[CHAT.kind] if setting.meaning.tools == wanted]
        return not choices or any(choices)

    @property
    def model(self) -> str | None:
        """The recorded name of the model, if it has one."""
        return next((s.model for settings in self._settings.values() for s in settings if s.model), None)

    def cross(self, boundary: Boundary, body: Body, given: Mapping[str, Any], owner: Any) -> Crossing:
        """Begin the crossing of a call, in the spelling of the recording that means the same.

        Args:
            boundary: A chat or a completion.
            body: Makes the request of parameters.
            given: The parameters that the call itself gives.
            owner: The stand-in.

        Raises:
            CassetteMissError: If there is no recording of it.
        """
        given = self._plain(given)
        meaning = meaning_of(given)
        settings = self._settings[boundary.kind]
        fitting = [setting.params for setting in settings if setting.fits(given, meaning)]
        base = settings[0].base if settings else {}
        bodies = [body(params) for params in fitting or [{**base, **given}]]
        known = [each for each in bodies if self.session.times_recorded(boundary, each)]
        left = (each for each in known if self.session.times_left(boundary, each))
        name = next((row.name for row in self.session.source.entries if row.kind == boundary.kind), "LLM")
        return self.session.cross(boundary, name, next(left, (known or bodies)[0]), owner=owner)

    def _plain(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a call in the form in which recorded ones are: plain and redacted."""
        plain: dict[str, Any] = self.session.redactor.value(value_codec().encode(params_body(given)))
        return plain
