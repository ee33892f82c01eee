"""``table.alter``: the verbs that change the columns, constraints, properties and features of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import DeltaError, InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.schema import Field, PrimitiveType
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.table.arguments.positional import also_by_position
from lakehouse_lib.table.metadata import TableFeatures
from lakehouse_lib.table.verbs.changes import check_changes, parsed
from lakehouse_lib.transaction.commit_properties import CommitProperties, commit_properties_of

if TYPE_CHECKING:
    from lakehouse_lib.table.delta_table import DeltaTable
    from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties


class TableAlterer:
    """The verbs of ``table.alter``. Each of them changes the metadata or the protocol of a table."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table
        self._versions: list[int | None] = []

    def apply(self, changes: Sequence[Mapping[str, Mapping[str, Any]]]) -> OperationResult:
        """Make the changes of a list, such as ``[{"drop_columns": {"column_names": ["note"]}}]``, in their order.

        Every change makes its own commit. If a change fails, the earlier commits stay.

        Args:
            changes: for each change, a mapping of the verb's name to its arguments. A field is a mapping with its
                ``name`` and ``type``, as in the JSON form of a schema.

        Raises:
            InvalidArgumentError: a change is not such a mapping, has an unknown verb or argument, or may read rows.
                Nothing is changed.
        """
        check_changes(changes, TableAlterer, table=self.table.table_uri)
        read_version, self._versions = self.table._latest().version, []
        for number, change in enumerate(changes, 1):
            ((verb, arguments),) = change.items()
            try:
                getattr(self, verb)(**parsed(arguments))
            except DeltaError as error:
                if number == 1:
                    raise
                raise type(error)(
                    f"change {number} of {len(changes)}, {verb}, failed after the first {number - 1}: {error.message}",
                    table=error.table,
                    version=error.version,
                    hint=f"The changes before it are committed. {error.hint or 'Repeat the remaining changes'}",
                    code=error.code,
                ) from error
        committed = [version for version in self._versions if version is not None]
        return OperationResult(self.table.store.root, read_version, max(committed, default=None))

    @also_by_position("commit_properties", "post_commithook_properties")
    def add_feature(
        self,
        feature: TableFeatures | str | Sequence[TableFeatures | str],
        allow_protocol_versions_increase: bool = False,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Add features to the protocol of the table; see ``operations.alter.features.add``.

        Args:
            feature: a member of ``TableFeatures``, a name as in the protocol, or a list of these.
            allow_protocol_versions_increase: raise the reader version to 3 and the writer version to 7, if necessary.
        """
        from lakehouse_lib.operations.alter.features.add import add_features

        features = [feature] if isinstance(feature, TableFeatures | str) else feature
        if not isinstance(features, Sequence) or not all(isinstance(item, TableFeatures | str) for item in features):
            raise InvalidArgumentError(
                f"feature is {excerpt(feature)}; expected a feature or a list of features",
                table=self.table.table_uri,
                hint="Write lakehouse_lib.TableFeatures.DeletionVectors",
            )
        names = [item.value if isinstance(item, TableFeatures) else item for item in features]
        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(
            add_features(
                latest,
                names,
                allow_protocol_versions_increase=allow_protocol_versions_increase,
                commit_properties=commit,
            )
        )

    def drop_feature(
        self,
        feature: TableFeatures | str,
        *,
        truncate_history: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Drop a feature. Files that need a reader feature are rewritten; see ``operations.alter.features.drop``.

        Args:
            truncate_history: delete the older versions that need the feature. False: add checkpointProtection.
        """
        from lakehouse_lib.operations.alter.features.drop import drop_feature

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        name = feature.value if isinstance(feature, TableFeatures) else feature
        engine = self.table.engine
        self._end(drop_feature(latest, name, engine, truncate_history=truncate_history, commit_properties=commit))

    @also_by_position("commit_properties", "post_commithook_properties")
    def add_columns(
        self,
        fields: Field | Sequence[Field],
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Add columns, and members of structs. They are NULL in existing rows; see ``operations.alter.columns``."""
        from lakehouse_lib.operations.alter.columns import add_columns

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        columns = [fields] if isinstance(fields, Field) else fields
        self._end(add_columns(latest, columns, commit_properties=commit))

    @also_by_position("post_commithook_properties", "commit_properties")
    def add_constraint(
        self,
        constraints: Mapping[str, str],
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Add CHECK constraints, if all rows satisfy them; see ``operations.alter.constraints``.

        Args:
            constraints: SQL conditions by name, such as ``{"positive": "price > 0"}``.
        """
        from lakehouse_lib.operations.alter.constraints import add_constraints

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(add_constraints(latest, constraints, self.table.engine, commit_properties=commit))

    @also_by_position("post_commithook_properties", "commit_properties")
    def drop_constraint(
        self,
        name: str,
        raise_if_not_exists: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Drop a CHECK constraint; see ``operations.alter.constraints``."""
        from lakehouse_lib.operations.alter.constraints import drop_constraint

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(drop_constraint(latest, name, raise_if_not_exists=raise_if_not_exists, commit_properties=commit))

    def drop_column_not_null(
        self,
        column_name: str,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Allow null in a column; see ``operations.alter.columns``."""
        from lakehouse_lib.operations.alter.columns import drop_column_not_null

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(drop_column_not_null(latest, column_name, commit_properties=commit))

    def set_column_default(
        self,
        column_name: str,
        default: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Set the SQL value that new rows without the column get, such as "'new'"; see ``operations.alter.columns``."""
        from lakehouse_lib.operations.alter.columns import set_column_default

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(set_column_default(latest, column_name, default, commit_properties=commit))

    def drop_column_default(
        self,
        column_name: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Remove the default of a column; see ``operations.alter.columns``."""
        from lakehouse_lib.operations.alter.columns import drop_column_default

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(drop_column_default(latest, column_name, commit_properties=commit))

    def set_column_not_null(
        self,
        column_name: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Make a column NOT NULL, if no row has null in it; see ``operations.alter.columns``."""
        from lakehouse_lib.operations.alter.columns import set_column_not_null

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(set_column_not_null(latest, column_name, self.table.engine, commit_properties=commit))

    def sync_identity(
        self,
        column_name: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Move the high water mark of an identity column to its last number; see ``operations.alter.identity_mark``."""
        from lakehouse_lib.operations.alter.identity_mark import sync_identity

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(sync_identity(latest, column_name, self.table.engine, commit_properties=commit))

    def change_column_type(
        self,
        column_name: str,
        type: PrimitiveType | str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Change the type of a column to a wider type, such as "long"; see ``operations.alter.columns``."""
        from lakehouse_lib.operations.alter.columns import change_column_type

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        kind = PrimitiveType(type) if isinstance(type, str) else type
        self._end(change_column_type(latest, column_name, kind, commit_properties=commit))

    def move_column(
        self,
        column_name: str,
        after: str | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Change the place of a column; see ``operations.alter.columns``.

        Args:
            after: the column that will come directly before; None: the column becomes the first.
        """
        from lakehouse_lib.operations.alter.columns import move_column

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(move_column(latest, column_name, after, commit_properties=commit))

    def rename_column(
        self,
        column_name: str,
        new_name: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Rename a column of a table with column mapping; see ``operations.alter.mapped_columns``."""
        from lakehouse_lib.operations.alter.mapped_columns import rename_column

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(rename_column(latest, column_name, new_name, commit_properties=commit))

    def drop_columns(
        self,
        column_names: Sequence[str],
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Drop columns of a table with column mapping; see ``operations.alter.mapped_columns``."""
        from lakehouse_lib.operations.alter.mapped_columns import drop_columns

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(drop_columns(latest, column_names, commit_properties=commit))

    def cluster_by(
        self,
        columns: Sequence[str] | str | None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Set the columns by which ``optimize.z_order()`` clusters the table; see ``operations.alter.clustering``.

        Args:
            columns: at most four columns; None or []: the table is not clustered any more.
        """
        from lakehouse_lib.operations.alter.clustering import cluster_by

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(cluster_by(latest, [columns] if isinstance(columns, str) else columns, commit_properties=commit))

    @also_by_position("commit_properties", "post_commithook_properties")
    def set_table_properties(
        self,
        properties: Mapping[str, str],
        raise_if_not_exists: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Set table properties, and add the features that they enable; see ``operations.alter.properties``.

        Args:
            raise_if_not_exists: refuse names that do not begin with ``delta.``.
        """
        from lakehouse_lib.operations.alter.properties import set_table_properties

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(
            set_table_properties(
                latest, properties, self.table.engine, raise_if_not_exists=raise_if_not_exists, commit_properties=commit
            )
        )

    def unset_table_properties(
        self,
        names: Sequence[str],
        raise_if_not_exists: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Remove table properties; see ``operations.alter.properties``."""
        from lakehouse_lib.operations.alter.properties import unset_table_properties

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(
            unset_table_properties(
                latest, names, self.table.engine, raise_if_not_exists=raise_if_not_exists, commit_properties=commit
            )
        )

    @also_by_position("commit_properties", "post_commithook_properties")
    def set_table_name(
        self,
        name: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Set the name of the table, text of 1 to 255 characters."""
        from lakehouse_lib.operations.alter.properties import set_table_name

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(set_table_name(latest, name, commit_properties=commit))

    @also_by_position("commit_properties", "post_commithook_properties")
    def set_table_description(
        self,
        description: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Set the description of the table, text of at most 4000 characters."""
        from lakehouse_lib.operations.alter.properties import set_table_description

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(set_table_description(latest, description, commit_properties=commit))

    @also_by_position("commit_properties", "post_commithook_properties")
    def set_column_metadata(
        self,
        column: str,
        metadata: Mapping[str, Any],
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Set entries in the metadata of a column, such as ``comment``; see ``operations.alter.columns``."""
        from lakehouse_lib.operations.alter.columns import set_column_metadata

        latest, commit = self._begin(commit_properties, post_commithook_properties)
        self._end(set_column_metadata(latest, column, metadata, commit_properties=commit))

    def _begin(
        self, commit_properties: CommitProperties | None, hook_properties: PostCommitHookProperties | None
    ) -> tuple[Snapshot, CommitProperties | None]:
        """The latest version, and the properties of the commit."""
        properties = commit_properties_of(commit_properties, hook_properties, table=self.table.table_uri)
        return self.table._latest(), properties

    def _end(self, result: OperationResult) -> None:
        self._versions.append(result.version)
        self.table._move_on(result.version)
