"""The check of the changes for ``table.alter.apply``. A change is a mapping of a verb's name to its arguments."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE
from lakehouse_lib.schema import Field

#: The verbs that may read rows. ``apply`` refuses them, because they need an engine.
_READING_VERBS = ("add_constraint", "set_column_not_null", "sync_identity")


def check_changes(changes: Any, alterer: type, *, table: str) -> None:
    """Check the verbs and the arguments of all changes, before the first change is made.

    Args:
        alterer: the class whose methods are the verbs, ``TableAlterer``.

    Raises:
        InvalidArgumentError: ``changes`` is empty, a change is not a mapping of one verb to its arguments, or a verb
            may read rows.
    """
    verbs = {
        name: [p for p in inspect.signature(verb).parameters.values() if not p.name.endswith("_properties")]
        for name, verb in vars(alterer).items()
        if inspect.isfunction(verb) and not name.startswith("_") and name != "apply"
    }
    for change in changes if isinstance(changes, (list, tuple)) and changes else [changes]:
        try:
            ((verb, arguments),) = change.items()
            inspect.Signature(verbs[verb]).bind(None, **parsed(arguments))
            may_read_rows = verb in _READING_VERBS or _rewrites_files(verb, arguments)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"the change is {excerpt(change)}; expected a mapping of a verb to its arguments ({error})",
                table=table,
                hint=f'Give a list such as [{{"drop_columns": {{"column_names": ["note"]}}}}]; the verbs are '
                f"{', '.join(name for name in verbs if name not in _READING_VERBS)}",
            ) from error
        if may_read_rows:
            raise InvalidArgumentError(
                f"the change is {verb}, which may read rows; expected a change that reads only the log",
                table=table,
                hint=f"Call table.alter.{verb}",
            )


def _rewrites_files(verb: str, arguments: Mapping[str, Any]) -> bool:
    if verb == "drop_feature":
        from lakehouse_lib.operations.alter.features.drop import REWRITING_FEATURES

        return getattr(arguments["feature"], "value", arguments["feature"]) in REWRITING_FEATURES
    key = COLUMN_MAPPING_MODE.key
    if verb == "unset_table_properties":
        return key in arguments["names"]
    return verb == "set_table_properties" and str(arguments["properties"].get(key, "name")).strip().lower() == "none"


def parsed(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with a ``Field`` for each mapping in ``fields``."""
    if "fields" not in arguments:
        return dict(arguments)
    fields = arguments["fields"]
    return {**arguments, "fields": [_field(value) for value in fields] if isinstance(fields, list) else _field(fields)}


def _field(value: Any) -> Any:
    return (
        Field.from_json(json.dumps({"nullable": True, "metadata": {}, **value})) if isinstance(value, dict) else value
    )
