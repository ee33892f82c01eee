"""What a connection's extra JSON says, as options of a table's store (docs/stores.md).

One connection serves tables on disks and in S3, so each gets what its store takes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_ROOTS = "allowed_roots"
_KEYS = frozenset({"access_key_id", "secret_access_key"})


def is_in_s3(location: str) -> bool:
    return location.partition(":")[0].lower() in ("s3", "s3a")


def options_on_disk(own: Mapping[str, Any]) -> dict[str, str]:
    """Those of S3 alone are left out. One that nobody knows stays: the store refuses it by its name.

    Args:
        own: of a connection of type ``lakehouse``.
    """
    return _texts({name: value for name, value in own.items() if _meaning(name) in (None, _ROOTS)}, in_s3=False)


def options_in_s3(own: Mapping[str, Any], aws: Mapping[str, str]) -> dict[str, str]:
    """Own options win over those of the aws connection, however the two spell them; keys win together with their token.

    Args:
        own: of a connection of type ``lakehouse``.
        aws: of the connection of type ``aws`` that it refers to, as ``aws_options`` gives them.
    """
    won = {_meaning(name) for name in own}
    if won & _KEYS:
        won |= {*_KEYS, "session_token"}
    return {**{name: value for name, value in aws.items() if _meaning(name) not in won}, **_texts(own, in_s3=True)}


def _meaning(name: str) -> str | None:
    """The option of S3 that a name means; None: none."""
    from lakehouse_lib.store.s3.options import option_of  # the plugin loads where the library is not on the path

    return option_of(name)


def _texts(options: Mapping[str, Any], *, in_s3: bool) -> dict[str, str]:
    texts = {}
    for name, value in options.items():
        if _meaning(name) != _ROOTS:
            texts[name] = str(value)
        elif roots := _roots(value, in_s3=in_s3):
            texts[_ROOTS] = roots
    return texts


def _roots(value: Any, *, in_s3: bool) -> str:
    """Of a list what tables of that kind may refer to; a text is of one kind, that of its first location."""
    if not isinstance(value, list):
        return str(value) if is_in_s3(str(value).lstrip()) == in_s3 else ""
    return (" " if in_s3 else os.pathsep).join(str(one) for one in value if is_in_s3(str(one)) == in_s3)
