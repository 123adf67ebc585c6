"""Replay objects, each with its own cassette, which answer from recordings without a real backend.

A stand-in doesn't have the settings of the original object: they are taken from the recording. Whatever a call itself
gives must be equal.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_core.integration.stand_ins.recorded_settings import Setting, distinct_settings, meaning_of
from agenttape_core.lifecycle.cache import open_replay, settings_of_replay
from agenttape_core.lifecycle.failed_blocks import tell_failed
from agenttape_core.matching import OnRepeat
from agenttape_core.session import Boundary, Report, Session, SessionCall, areplay_call, replay_call, runs, value_codec
from agenttape_core.settings import Pace

_REMEMBERED = 64


class Options(TypedDict, total=False):
    """The options of every stand-in; by default, and with `None`, the settings of the project hold.

    Args:
        on_repeat: What to do when a request is repeated more often than it was recorded: `fail`, `last`, `cycle`.
        pace: The time that an answer takes.
    """

    on_repeat: OnRepeat | None
    pace: Pace | None


def _options(*, on_repeat: OnRepeat | None = None, pace: Pace | None = None) -> Mapping[str, Any]:
    """Return the options; raises `TypeError` for others, as any call does."""
    return {"on_repeat": on_repeat, "pace": pace}


Settings = Mapping[str, Any]  # the part of a request that belongs to the object and not to the call


class Recorded:
    """The recordings of one part of an agent. Each instance replays them once from the start.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        options: `on_repeat` and `pace`.

    Raises:
        CassetteError: If the cassette doesn't exist or can't be read.
    """

    on_unpickled: Callable[[Any], object] | None = None
    """Called with each copy that is unpickled."""

    def __init__(self, cassette: str | Path, **options: Unpack[Options]) -> None:
        self._open(cassette, _options(**options))

    def _open(self, cassette: str | Path, options: Mapping[str, Any]) -> None:
        self._session = open_replay(cassette, options)
        self._session.report.leave_unused()

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: a copy there replays from the start, with the same settings."""
        path = self._session.path
        opened = path.absolute() if isinstance(path, Path) else path, settings_of_replay(self._session)
        return {**vars(self), "_session": opened}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open(*state["_session"])
        if self.on_unpickled is not None:
            self.on_unpickled(self)

    def __copy__(self) -> Self:
        """Return itself: a copy continues in the cassette at the same place as the original."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return itself, as `__copy__` does."""
        return self

    @property
    def report(self) -> Report:
        """The report of the calls replayed so far."""
        return self._session.report

    @property
    def session(self) -> Session:
        """The session that replays; it is never the current one."""
        return self._session

    def plain(self, value: Any) -> Any:
        """Return a value in the form in which recorded ones are: plain and redacted."""
        return self._session.redactor.value(value_codec().encode(value))

    def value(self, plain: Any) -> Any:
        """Return the value for a plain one from a recording: requests are made of values."""
        return value_codec().decode(plain)

    def requests(self, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the name and the request of each recording of a kind."""
        source = self._session.source
        for row in source.entries:
            if row.kind == kind:
                yield row.name, source.interaction(row.number).request

    def cross_one_of(
        self, boundary: Boundary, name: str, bodies: Sequence[dict[str, Any]], ids: tuple[str, ...] = ()
    ) -> SessionCall:
        """Begin a call that may have been recorded in several forms.

        The first form that has a recording left is replayed, else the first that ever had one.

        Args:
            boundary: Its family.
            name: The recorded name.
            bodies: The request, in each form.
            ids: Run-specific ids of the call that are not part of its request.

        Raises:
            CassetteMissError: If there's no recording for it.
        """
        body = bodies[0] if len(bodies) == 1 else self._recorded_one_of(boundary, bodies)
        try:
            return self._session.cross(boundary, name, body, owner=self, ids=ids)
        except CassetteMissError as miss:  # no block ends here that could tell of it, if the program catches it
            tell_failed(self._session.path, self._session, miss, is_within=False)
            raise

    def _recorded_one_of(self, boundary: Boundary, bodies: Sequence[dict[str, Any]]) -> dict[str, Any]:
        known = [body for body in bodies if runs.times_recorded(self._session, boundary, body)]
        left = (body for body in known if runs.times_left(self._session, boundary, body))
        return next(left, (known or bodies)[0])


class RecordedPart(Recorded):
    """The recordings of a part whose settings are plain values: a retriever, a store, a tool, an embedding model.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        kinds: The kinds of its interactions.
        settings_in: Reads the settings of a recorded request; `None` for one of another sort of object.
        name: Its recorded name, where the cassette holds several.
        choice: Settings that must be equal, where the cassette holds several.
        options: `on_repeat` and `pace`.

    Raises:
        CassetteError: If the cassette doesn't exist or can't be read.
        ConfigurationError: If it holds no recording of that sort, or none so chosen.
    """

    def __init__(
        self,
        cassette: str | Path,
        kinds: frozenset[str],
        settings_in: Callable[[Mapping[str, Any]], Settings | None],
        *,
        name: str | None = None,
        choice: Settings | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(cassette, **options)
        self._kinds = kinds
        found = list(self._found(settings_in))
        wanted = {key: value for key, value in (choice or {}).items() if value is not None}
        mine = [(each, held) for each, held in found if name in {None, each} and wanted.items() <= held.items()]
        if not mine:
            raise self._not_found(found, name, wanted)
        self.name = mine[0][0]
        """The recorded name: of the first, if they have several."""
        self.settings = list({json.dumps(held, sort_keys=True): held for _, held in mine}.values())
        """Each distinct set of settings, in recorded order."""

    def _found(self, settings_in: Callable[[Mapping[str, Any]], Settings | None]) -> Iterator[tuple[str, Settings]]:
        for kind in self._kinds:
            for name, request in self.requests(kind):
                settings = settings_in(request)
                if settings is not None:
                    yield name, settings

    def _not_found(self, found: list[tuple[str, Settings]], name: str | None, wanted: Settings) -> ConfigurationError:
        kinds = " or ".join(sorted(self._kinds))
        if not found:
            return ConfigurationError(
                f"{self._session.path} holds no {kinds} of this sort, so nothing can replace it\n"
                "  record a run that calls it, or name another cassette"
            )
        asked = " and ".join([*([repr(name)] if name else []), *(f"{key} {value!r}" for key, value in wanted.items())])
        held = sorted({f"{each} {json.dumps({k: s.get(k) for k in wanted}) if wanted else ''}" for each, s in found})
        return ConfigurationError(
            f"{self._session.path} holds no {kinds} of {asked}; it holds {', '.join(map(str.strip, held))}\n"
            "  name one of them"
        )

    def cross(
        self,
        boundary: Boundary,
        body: Callable[[Settings], dict[str, Any]],
        given: Settings | None = None,
        ids: tuple[str, ...] = (),
    ) -> SessionCall:
        """Begin a call.

        Args:
            boundary: Its family.
            body: Makes the request of settings.
            given: The settings that the call itself gives.
            ids: Run-specific ids of the call that are not part of its request.

        Raises:
            CassetteMissError: If there's no recording for it.
        """
        asked = self.plain(given or {})
        fitting = [held for held in self.settings if asked.items() <= held.items()]
        bodies = [body(self.value(held)) for held in fitting or [{**self.settings[0], **asked}]]
        return self.cross_one_of(boundary, self.name, bodies, ids)


class RecordedModel(Recorded):
    """The recordings of one model, whose tools and response formats may be spelled in any provider's way.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        boundaries: The families of its calls: chats, completions.
        model: Its name, where the cassette holds several models.
        options: `on_repeat` and `pace`.

    Raises:
        CassetteError: If the cassette doesn't exist or can't be read.
        ConfigurationError: If it holds no call of a model, or none of that one.
    """

    def __init__(
        self, cassette: str | Path, boundaries: Sequence[Boundary], model: str | None = None, **options: Unpack[Options]
    ) -> None:
        super().__init__(cassette, **options)
        recorded = {
            each.kind: distinct_settings(request for _, request in self.requests(each.kind)) for each in boundaries
        }
        self._settings = {
            kind: [setting for setting in settings if model in {None, setting.model}]
            for kind, settings in recorded.items()
        }
        if not any(self._settings.values()):
            raise self._not_found([setting for settings in recorded.values() for setting in settings], model)
        self._fitting: dict[tuple[str, bytes], list[Any]] = {}
        """The parameters of the matched recordings, by the parameters of the calls."""
        self._names = {row.kind: row.name for row in reversed(self._session.source.entries) if row.kind in recorded}

    def _not_found(self, recorded: list[Setting], model: str | None) -> ConfigurationError:
        kinds = " and no ".join(self._settings)
        if not recorded:
            return ConfigurationError(
                f"{self._session.path} holds no {kinds}, so nothing can replace a model\n"
                "  record a run that calls a model, or name another cassette"
            )
        models = ", ".join(sorted({repr(setting.model) for setting in recorded if setting.model is not None}))
        holds, advice = (models, "name one of them as the") if models else ("a model without a name", "leave out the")
        return ConfigurationError(
            f"{self._session.path} holds no {kinds} of the model {model!r}; it holds calls of {holds}\n"
            f"  {advice} `model`"
        )

    def settings(self, boundary: Boundary) -> list[Setting]:
        """Return the distinct settings in which the model was called."""
        return self._settings[boundary.kind]

    @property
    def model(self) -> str | None:
        """The recorded name of the model, if it has one."""
        return next((each.model for settings in self._settings.values() for each in settings if each.model), None)

    def was_forced(self, boundary: Boundary, tools: Sequence[Any]) -> bool | None:
        """Return whether the model was ever forced to call one of these tools; not every provider can do that.

        Args:
            boundary: The family of its calls.
            tools: The tools, as dicts in any provider's spelling.

        Returns:
            `None` where it never had these tools.
        """
        wanted = meaning_of({"tools": tools}).tools
        choices = [each.meaning.choice for each in self.settings(boundary) if each.meaning.tools == wanted]
        return any(choices) if choices else None

    def cross(
        self, boundary: Boundary, body: Callable[[Mapping[str, Any]], dict[str, Any]], given: Mapping[str, Any]
    ) -> SessionCall:
        """Begin a call, in the spelling of the recording that means the same.

        Args:
            boundary: Its family.
            body: Makes the request of parameters.
            given: The parameters that the call itself gives.

        Raises:
            CassetteMissError: If there's no recording for it.
        """
        try:
            key: Any = boundary.kind, marshal.dumps(dict(given), 2)
        except ValueError:  # what is given is not plain
            key = None
        params = self._fitting.get(key) if key is not None else None
        if params is None:
            params = self._params_of(boundary, given)
            if key is not None and len(self._fitting) < _REMEMBERED:
                self._fitting[key] = params
        return self.cross_one_of(boundary, self._name(boundary), [*map(body, params)])

    def _params_of(self, boundary: Boundary, given: Mapping[str, Any]) -> list[Any]:
        """Return the parameters of each recording that a call may be one of."""
        asked = self.plain(given)
        meaning = meaning_of(asked)
        settings = self.settings(boundary)
        fitting = [setting.params for setting in settings if setting.fits(asked, meaning)]
        base = settings[0].base if settings else {}
        return [*map(self.value, fitting or [{**base, **asked}])]

    def _name(self, boundary: Boundary) -> str:
        """Return the recorded name; for a family without recordings, the name of another one."""
        return self._names.get(boundary.kind) or next(iter(self._names.values()))


def settings_of_method(methods: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Settings | None]:
    """Return a reader of the settings of a request, for requests of one of several methods."""
    return lambda request: request.get("settings", {}) if request.get("method") in methods else None


# Methods of stand-ins that are replayed by name, in both of their forms.

CrossMethod = Callable[[Any, tuple[Any, ...], dict[str, Any]], SessionCall]
"""Begin a call of a method of a stand-in (stand-in, positional arguments, others)."""


def replayed_method(
    method: str, cross: CrossMethod, async_name: str | None = None
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a method that answers from the recording, and its asynchronous form.

    Args:
        method: Its name.
        cross: Begins a call.
        async_name: The name of the asynchronous form; by default the name with an `a` before it.
    """

    def replay(self: Any, *args: Any, **kwargs: Any) -> Any:
        return replay_call(cross(self, args, kwargs))

    async def areplay(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await areplay_call(cross(self, args, kwargs))

    replay.__name__, areplay.__name__ = method, async_name or f"a{method}"
    replay.__doc__ = areplay.__doc__ = f"Return what `{method}` returned when the cassette was recorded."
    return replay, areplay
