"""Conversion of an operator's rendered arguments, which are text, to values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow.sdk import BaseOperator

from lakehouse_lib.catalogue.operation import Operation, Parameter
from lakehouse_lib.command_options import value_of_text


def read_rendered(operator: BaseOperator, parameters: Sequence[Parameter]) -> None:
    """Parse the texts in an operator's attributes, and replace them by their values, such as ``"24"`` by 24.

    Args:
        parameters: the operator's parameters. A parameter that is not an attribute is skipped.

    Raises:
        InvalidArgumentError: a text is not a valid value of its parameter.
    """
    for parameter in parameters:
        value = getattr(operator, parameter.name, None)
        if isinstance(value, str):
            setattr(operator, parameter.name, value_of_text(parameter, value))


def with_registry_defaults(operation: Operation, attributes: Mapping[str, str]) -> tuple[Parameter, ...]:
    """The parameters of an operation for an operator that takes some defaults from the registry.

    The texts ``None`` and "" of a rendered template then mean None, as if the argument was left out.

    Args:
        attributes: the operator's attributes whose default is in the registry, with the names of their parameters.
    """
    names = {parameter: attribute for attribute, parameter in attributes.items()}
    return tuple(
        replace(parameter, name=names[parameter.name], default=None) if parameter.name in names else parameter
        for parameter in operation.parameters
    )
