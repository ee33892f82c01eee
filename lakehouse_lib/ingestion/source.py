"""A source: its landing folder, its table, and the rules of its batches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse_lib.ingestion.landing import Landing, open_landing
from lakehouse_lib.ingestion.sources.source_format import RESCUE, RESCUED, SourceFormat
from lakehouse_lib.schema import Field, Schema, with_members_of
from lakehouse_lib.schema.rows.enforcement import is_computed

#: The order in which files land. ``by_name``: the name of each new file comes after the names of all earlier files.
ANY, BY_NAME = "any", "by_name"

#: Parameters of a command line that are attributes of a source.
_RULES = (
    "partition_by",
    "files_per_batch",
    "settle_seconds",
    "target_file_size",
    "pattern",
    "bytes_per_batch",
    "order",
)


@dataclass(frozen=True)
class Source:
    """A source of a table.

    Attributes:
        table, quarantine: the locations of the table and of the quarantine table.
        schema: the schema of the table. If ``format`` rescues values, the column ``_rescued`` is added to it.
        landing: the location of the folder that its files arrive in.
        suite: the quality suite's JSON; None: no gate.
        partition_by: partition columns of a new table.
        settle_seconds: a file modified less than this many seconds ago may still be growing.
        target_file_size: bytes; None: ``delta.targetFileSize`` of the table, else 100 MiB.
        pattern: the pattern of the names of its files (``NamePattern``); None: all files of the folder, which must not
            have subfolders.
        files_per_batch: the largest number of files of a batch; 10,000 if it is larger.
        bytes_per_batch: the largest number of bytes of a batch with several files; None: no limit.
        order: ``any`` or ``by_name``. With ``by_name``, a listing begins after the last name up to which all files are
            settled.
        storage_options: options by location, which may hold secrets; ``repr`` leaves them out.
    """

    table: str
    landing: str
    name: str
    format: SourceFormat
    schema: Schema
    suite: Any
    quarantine: str
    partition_by: tuple[str, ...] = ()
    files_per_batch: int = 1
    settle_seconds: float = 0
    target_file_size: int | None = None
    pattern: str | None = None
    bytes_per_batch: int | None = None
    order: str = ANY
    storage_options: Mapping[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.format.evolution == RESCUE and RESCUED not in self.schema:
            object.__setattr__(self, "schema", Schema([*self.schema.fields, Field(RESCUED, "string")]))

    @classmethod
    def of(
        cls,
        values: Mapping[str, Any],
        *,
        schema: str,
        suite: Any = None,
        storage_options: Mapping[str, dict[str, str]] | None = None,
    ) -> Source:
        """The source that a command line describes.

        Args:
            values: the parameters of the catalogue's operation ``ingest``.
            schema: the text of the schema file.
            suite: the value of the suite file.
        """
        return cls(
            values["table"],
            values["landing"],
            values["source"],
            SourceFormat.of(values),
            Schema.from_json(schema),
            suite,
            values["quarantine"],
            storage_options=storage_options or {},
            **{name: values[name] for name in _RULES},
        )

    def with_columns_of(self, table: Schema) -> Source:
        """The source with the nullable columns and members of structs that only its table has.

        Columns that a write computes are left out.
        """
        columns = {field.name: field for field in table.fields}
        declared = [
            Field(field.name, with_members_of(field.type, columns[field.name].type), field.nullable, field.metadata)
            if field.name in columns
            else field
            for field in self.schema.fields
        ]
        additions = [
            Field(field.name, field.type)
            for field in table.fields
            if field.name not in self.schema and field.nullable and not is_computed(field)
        ]
        return replace(self, schema=Schema([*declared, *additions]))

    def open_landing(self) -> Landing:
        """The landing folder. Nothing is read."""
        return open_landing(self.landing, self.storage_options.get(self.landing), pattern=self.pattern)

    @property
    def definition(self) -> str:
        """A digest of the format and the schema. After they have changed, a file that was refused may be valid.

        It is that of the source as its user declares it, without ``with_columns_of``: the columns that files add to the
        table change from load to load.
        """
        rules = self.rules()
        text = json.dumps([rules["format"], rules["schema"]], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def rules(self) -> dict[str, Any]:
        """The rules of a batch, as its intent stores them."""
        return {
            "format": self.format.to_json(),
            "schema": self.schema.json(),
            "suite": self.suite,
            "partition_by": list(self.partition_by),
        }
