# ruff: noqa: INP001 - mkdocs loads this file by its path
"""Show functions that are made from a request with the arguments that they take.

mkdocstrings reads the source without running it, so it sees the definition below a `@takes(...)` decorator, and not the
signature that the decorator gives to the function: https://mkdocstrings.github.io/griffe/guide/users/extending/
"""

from __future__ import annotations

import ast
import inspect
from pkgutil import resolve_name
from typing import Any

from griffe import Extension, Function, Parameter, ParameterKind, Parameters

DECORATOR = "takes"
_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: ParameterKind.keyword_only,
    inspect.Parameter.VAR_KEYWORD: ParameterKind.var_keyword,
}


class Signatures(Extension):
    """Takes the parameters of decorated functions from the functions themselves."""

    def on_function(self, *, func: Function, **kwargs: Any) -> None:  # noqa: ARG002 - griffe names them
        """Replace the parameters of a function whose decorator gives it others."""
        if any(decorator.callable_path.rpartition(".")[2] == DECORATOR for decorator in func.decorators):
            function = resolve_name(f"{func.module.path}:{func.name}")
            func.parameters = Parameters(*map(_as_shown, inspect.signature(function).parameters.values()))


def _as_shown(parameter: inspect.Parameter) -> Parameter:
    default = None if parameter.default is parameter.empty else repr(parameter.default)
    annotation = None if parameter.annotation is parameter.empty else _annotation(parameter.annotation)
    return Parameter(parameter.name, annotation=annotation, kind=_KINDS[parameter.kind], default=default)


def _annotation(annotation: Any) -> str:
    return ast.unparse(ast.parse(annotation)) if isinstance(annotation, str) else inspect.formatannotation(annotation)
