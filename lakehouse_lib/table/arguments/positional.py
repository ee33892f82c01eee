"""Arguments by position that the ``deltalake`` package still accepts, although it declares them keyword-only."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def also_by_position(*names: str) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Let a method also take keyword-only arguments by position, after its positional arguments.

    Such a call gives a DeprecationWarning. A value of None is left out, so ``names`` may contain an argument that the
    method does not have.

    Args:
        names: the keyword-only arguments, in the order of their positions.

    Raises:
        TypeError: (a call) there are more values than names, or an argument is given twice.
    """

    def decorate(method: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        count = sum(parameter.kind in by_position for parameter in inspect.signature(method).parameters.values())

        @wraps(method)
        def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            extra_values = args[count:]
            if extra_values:
                keywords = _keywords_of(method.__name__, names, extra_values, kwargs)
                return method(*args[:count], **keywords)  # type: ignore[arg-type]
            return method(*args, **kwargs)

        return call

    return decorate


def _keywords_of(
    method: str, names: tuple[str, ...], values: tuple[object, ...], keywords: dict[str, object]
) -> dict[str, object]:
    if len(values) > len(names):
        raise TypeError(f"{method}() got unexpected positional arguments")
    warnings.warn(
        f"arguments of {method}() are passed positionally; expected keywords for {', '.join(names[: len(values)])}",
        DeprecationWarning,
        stacklevel=3,
    )
    for name in names[: len(values)]:
        if name in keywords:
            raise TypeError(f"{method}() got multiple values for '{name}'")
    keyword_values = {name: value for name, value in zip(names, values, strict=False) if value is not None}
    return keywords | keyword_values
