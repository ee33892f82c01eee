"""The notifiers that a registry names."""

from __future__ import annotations

import importlib

from airflow.providers.common.compat.sdk import BaseNotifier

from lakehouse_airflow.errors import RegistryValueError


def notifier_of(reference: str) -> BaseNotifier:
    """Call a factory, and return its notifier. Only the registry names factories, and it is trusted like a DAG file.

    Args:
        reference: ``MODULE:FUNCTION``.

    Raises:
        RegistryValueError: the factory cannot be imported, or makes something else.
    """
    module, _, name = reference.partition(":")
    try:
        notifier = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError) as error:
        raise RegistryValueError(f"the registry's notifier {reference!r} cannot be imported: {error}") from None
    if not isinstance(notifier, BaseNotifier):
        raise RegistryValueError(
            f"the registry's notifier {reference!r} made a {type(notifier).__name__}; expected an Airflow notifier"
        )
    return notifier
