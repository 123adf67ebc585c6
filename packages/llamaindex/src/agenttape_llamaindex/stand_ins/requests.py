"""Which recording a call of a stand-in means, of several models, settings and spellings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttape_core import ConfigurationError
from agenttape_core.integration import (
    Boundary,
    Crossing,
    Exhausted,
    Pace,
    Session,
    Setting,
    distinct_settings,
    meaning_of,
    open_replay,
    value_codec,
)
from agenttape_llamaindex.llms import CHAT, COMPLETION
from agenttape_llamaindex.requests import params_body

_ASKED = frozenset({"messages", "prompts"})

Body = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Makes a request of parameters."""


class RecordedModel:
    """The chats and completions of one model in a cassette. Each instance replays them once from the start.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        model: Which model, where the cassette holds several.
        exhausted: What to do when a request is asked more often than it was recorded.
        pace: How long an answer takes.

    Raises:
        CassetteError: If there is no such cassette, or it cannot be read.
        ConfigurationError: If it holds nothing of an LLM, or not of that one.
    """

    def __init__(self, cassette: str | Path, model: str | None, exhausted: Exhausted, pace: Pace) -> None:
        self.session: Session = open_replay(cassette, exhausted=exhausted, pace=pace)
        self._settings = {kind: self._recorded(kind, model) for kind in (CHAT.kind, COMPLETION.kind)}
        if not any(self._settings.values()):
            raise self._nothing(model)

    def __deepcopy__(self, memo: dict[int, object]) -> RecordedModel:
        """Return itself: a copy of a stand-in goes on in the cassette where the original is."""
        return self

    def _recorded(self, kind: str, model: str | None) -> list[Setting]:
        source = self.session.source
        requests = (source.interaction(row.number).request for row in source.entries if row.kind == kind)
        stripped = ({key: value for key, value in request.items() if key not in _ASKED} for request in requests)
        return [setting for setting in distinct_settings(stripped) if model in {None, setting.model}]

    def _nothing(self, model: str | None) -> ConfigurationError:
        every = [setting for kind in self._settings for setting in self._recorded(kind, None)]
        if not every:
            return ConfigurationError(
                f"{self.session.path} holds no chat and no completion, so no LLM can be made of it\n"
                "  record a run that calls an LLM, or name another cassette"
            )
        return ConfigurationError(
            f"{self.session.path} holds nothing of the model {model!r}; it holds calls of "
            f"{', '.join(sorted({repr(setting.model) for setting in every}))}\n"
            "  name one of them: ReplayLLM(..., model=...)"
        )

    def has(self, boundary: Boundary) -> bool:
        """Whether there are recordings of a kind."""
        return bool(self._settings[boundary.kind])

    @property
    def is_chat_model(self) -> bool:
        """Whether the model was sent prompts as chats: it was if it had chats without tools, or nothing but chats."""
        chats = self._settings[CHAT.kind]
        return bool(chats) and (not self.has(COMPLETION) or any(not setting.meaning.tools for setting in chats))

    @property
    def has_tools(self) -> bool:
        """Whether the model was told of tools."""
        return any(setting.meaning.tools for setting in self._settings[CHAT.kind])

    def forced(self, tools: Sequence[Any]) -> bool:
        """Whether the model that had these tools was ever told to call one: not every provider can be."""
        wanted = meaning_of({"tools": tools}).tools
        choices = [setting.meaning.choice for setting in self._settings[CHAT.kind] if setting.meaning.tools == wanted]
        return not choices or any(choices)

    @property
    def model(self) -> str | None:
        """The recorded name of the model, if it has one."""
        return next((s.model for settings in self._settings.values() for s in settings if s.model), None)

    def cross(self, boundary: Boundary, body: Body, given: Mapping[str, Any], owner: Any) -> Crossing:
        """Begin the crossing of a call, asked in the spelling of the recording that means the same.

        Args:
            boundary: A chat or a completion.
            body: Makes the request of parameters.
            given: The parameters that the call itself gives.
            owner: The stand-in.

        Raises:
            CassetteMissError: If there is no recording of it.
        """
        asked = self._plain(given)
        meaning = meaning_of(asked)
        settings = self._settings[boundary.kind]
        fitting = [setting.params for setting in settings if setting.fits(asked, meaning)]
        base = settings[0].base if settings else {}
        bodies = [body(params) for params in fitting or [{**base, **asked}]]
        known = [each for each in bodies if self.session.times_recorded(boundary, each)]
        left = (each for each in known if self.session.times_left(boundary, each))
        name = next((row.name for row in self.session.source.entries if row.kind == boundary.kind), "LLM")
        return self.session.cross(boundary, name, next(left, (known or bodies)[0]), owner=owner)

    def _plain(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a call in the form in which recorded ones are: plain and redacted."""
        plain: dict[str, Any] = self.session.redactor.value(value_codec().encode(params_body(given)))
        return plain
