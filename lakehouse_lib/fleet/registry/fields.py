"""The kinds of values in a registry, and the base class of its parts."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from lakehouse_lib.fleet.registry.schedules import check_schedule
from lakehouse_lib.protocol.property_values import size
from lakehouse_lib.store.uris import SCHEME

_SCHEME = re.compile(f"{SCHEME}:(?=/)")


def _resolve(location: str, info: ValidationInfo) -> str:
    if not location:
        raise ValueError("the location is empty; expected a path or a URI")
    if "://" in location:
        return location
    scheme = _SCHEME.match(location)
    if scheme is not None:  # otherwise scheme:/bucket would be a folder of this machine
        raise PydanticCustomError(
            "no_path",
            "the location has one slash after {scheme}; expected {scheme}//",
            {"scheme": scheme[0]},
        )
    folder = (info.context or {}).get("folder", ".")
    if "://" in folder:
        return posixpath.normpath(location) if location.startswith("/") else _below(folder, location)
    return os.path.normpath(Path(folder, location))


def _below(folder: str, path: str) -> str:
    """A relative path below the URI of a folder. It cannot leave the bucket."""
    scheme, _, rest = folder.partition("://")
    host, _, top = rest.partition("/")
    return f"{scheme}://{host}{posixpath.normpath(posixpath.join('/', top, path))}"


def _require_path(path: str, info: ValidationInfo) -> str:
    scheme = _SCHEME.match(path)
    if scheme is not None:
        raise PydanticCustomError(
            "no_path",
            "the path begins with {scheme}; expected a path on a local or mounted disk",
            {"scheme": scheme[0]},
        )
    if "://" in (info.context or {}).get("folder", ".") and not path.startswith("/"):
        raise ValueError("the path is relative, and the registry is in an object store; expected an absolute path")
    return path


def _parse_size(value: object) -> object:
    if isinstance(value, bool):  # pydantic takes true as 1
        raise ValueError("the size is a boolean; expected bytes, or a text such as 256mb")
    if not isinstance(value, str):
        return value
    try:
        return size(value)
    except ValueError:
        raise ValueError("the size is not valid; expected bytes, or a text such as 256mb") from None


def _refuse_duplicates(columns: tuple[str, ...]) -> tuple[str, ...]:
    names = [column.lower() for column in columns]  # names are case-insensitive
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ValueError(f"the columns have {columns[number]!r} twice; remove one of the two")
    return columns


#: Names of columns, each once.
Columns = Annotated[tuple[str, ...], AfterValidator(_refuse_duplicates)]
#: A path or URI; a relative path is relative to the folder of the registry file.
Location = Annotated[str, AfterValidator(_resolve)]
#: A path on a disk; a relative path is relative to the folder of the registry file.
LocalPath = Annotated[str, AfterValidator(_require_path), AfterValidator(_resolve)]
#: A number of bytes, or a text such as ``256mb``, as in table properties.
Bytes = Annotated[
    int,
    BeforeValidator(_parse_size, json_schema_input_type=int | str),
    Field(ge=1),
]
#: A name, which becomes a part of paths, URLs, asset URIs, and of the ids of DAGs, which have at most 250 characters.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)]
#: The id of a connection of Airflow.
ConnectionId = Annotated[str, Field(min_length=1, max_length=250)]
#: The schedule of a DAG.
Schedule = Annotated[str, AfterValidator(check_schedule)]

#: A reference to an object in a Python module: ``package.module:name``.
Reference = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")]


class Strict(BaseModel):
    """A part of the registry. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)
