"""Conversion of an operator's rendered arguments, which are text, to values."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import BaseOperator

from lakehouse_lib.catalogue.operation import Parameter
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
