"""Drop a table feature: remove its traces from the latest version, and then the feature from the protocol.

Older versions may still need a reader feature. As in delta-spark, there are two ways. Either the drop writes
checkpoints after the last trace, so that readers do not need the older versions, and adds the feature
checkpointProtection, which protects the checkpoints. Or it deletes the older versions first (``truncate_history``).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, UnsupportedFeatureError
from lakehouse_lib.features import FEATURES, domain_metadata, with_features, without_feature, writer_features
from lakehouse_lib.features.checkpoints import checkpoint_protection
from lakehouse_lib.features.constraints import invariants
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.alter.features.history_truncation import truncate_history as truncate
from lakehouse_lib.operations.alter.features.traces import TRACES, Traces
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.schema import not_null_rules
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties, without_transactions
from lakehouse_lib.transaction.conflicts.checker import find_change

logger = logging.getLogger(__name__)

#: The features whose drop may rewrite data files.
REWRITING_FEATURES = tuple(
    name for name, traces in TRACES.items() if FEATURES[name].reader and (traces.rewrite or traces.disable)
)
#: The number of checkpoints before a drop. If delta-spark cannot read the newest checkpoint, it tries up to three older
#: checkpoints, and then older commits.
_BARRIERS = 3


def check_drop(snapshot: Snapshot, name: str, *, truncate_history: bool = False) -> None:
    """Refuse to drop a feature that the table does not have, that cannot be dropped, or that the table uses.

    Raises:
        InvalidArgumentError: the table does not have the feature, or uses it; or ``truncate_history`` is not allowed
            for the feature, or is required.
        UnsupportedFeatureError: the log or the files may have traces of the feature, which this library cannot remove.
    """
    table, version = snapshot.store.root, snapshot.version
    features = writer_features(snapshot.protocol)
    if not isinstance(name, str) or name not in features:
        raise InvalidArgumentError(
            f"the table does not have the feature {excerpt(name)}",
            table=table,
            version=version,
            hint=f"Its features are {', '.join(sorted(features)) or 'none'}",
            code="DELTA_FEATURE_NOT_FOUND",
        )
    feature = FEATURES[name]
    protection = checkpoint_protection.FEATURE.name
    if truncate_history and not feature.reader and name != protection:
        raise InvalidArgumentError(
            f"the feature {name} cannot be dropped with truncate_history=True: no older version needs it",
            table=table,
            version=version,
            hint="Leave out truncate_history, which is for reader features and checkpointProtection",
            code="DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED",
        )
    if name == protection and not truncate_history:
        raise InvalidArgumentError(
            f"the feature {name} protects older versions; expected truncate_history=True, which deletes them",
            table=table,
            version=version,
            hint="Call drop_feature(..., truncate_history=True)",
            code="DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION",
        )
    if name == protection:
        return
    droppable = {
        other.name for other in FEATURES.values() if other.legacy_versions is not None and not other.reader
    } | {*TRACES}
    if name not in droppable:
        raise UnsupportedFeatureError(
            f"the feature {name} cannot be dropped, because its traces in files cannot be removed; expected one of "
            f"{', '.join(sorted(droppable))}",
            table=table,
            version=version,
            hint="Use delta-spark's ALTER TABLE ... DROP FEATURE, or copy the rows into a new table",
        )
    dependents = sorted(other for other in features if name in FEATURES[other].requires)
    domains = sorted(snapshot.domains) if name == domain_metadata.FEATURE.name else []
    if dependents or domains:
        kind, users = ("features", dependents) if dependents else ("domains", [excerpt(domain) for domain in domains])
        raise InvalidArgumentError(
            f"the feature {name} cannot be dropped: the table has the {kind} {', '.join(users)}",
            table=table,
            version=version,
            hint="First drop these features"
            if dependents
            else "First remove the domains with the program that wrote "
            "them; DROP FEATURE of delta-spark removes all domains",
            code="DELTA_FEATURE_IN_USE",
        )
    if name in TRACES and TRACES[name].are_removable:
        return
    # In delta-spark, a NOT NULL column is an invariant.
    has_not_null = feature is invariants.FEATURE and bool(not_null_rules(snapshot.layout))
    if feature.is_used(snapshot.metadata, snapshot.schema) or has_not_null:
        raise InvalidArgumentError(
            f"the feature {name} cannot be dropped: the table uses it",
            table=table,
            version=version,
            hint="First unset the properties that enable it, drop its constraints and columns, and make columns "
            "nullable",
            code="DELTA_FEATURE_IN_USE",
        )


def drop_feature(
    snapshot: Snapshot,
    name: str,
    engine: Engine,
    *,
    truncate_history: bool = False,
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Drop a feature from the protocol of a table.

    A writer feature takes one commit, except rowTracking: earlier commits remove the row ids from the log. For a reader
    feature, the first commits remove the property that enables it, and rewrite the files that need it. Then follow
    three commits without actions, each with a checkpoint. The last commit drops the feature, and adds
    checkpointProtection. If the drop is interrupted or loses a race, call it again.

    Args:
        truncate_history: delete the older versions that need the feature, instead of adding checkpointProtection.

    Raises:
        DeltaError: as ``check_drop``.
        RetentionError: with ``truncate_history``: an older version needs the feature and cannot be deleted yet. The
            latest version does not need it any more.
        CommitFailedError: a concurrent commit conflicts with this one. For the last commit of a reader feature, any
            concurrent commit is a conflict. For that of a writer feature, a commit that uses the feature is a conflict.
    """
    snapshot.check_writable()
    check_drop(snapshot, name, truncate_history=truncate_history)
    parameters = {"featureName": name, "truncateHistory": truncate_history}
    if name == checkpoint_protection.FEATURE.name:
        latest = truncate(snapshot, name, without_transactions(commit_properties))
        unprotected = checkpoint_protection.without_protection(latest.metadata)
        return _commit_drop(snapshot, latest, name, parameters, commit_properties, metadata=unprotected)
    if not FEATURES[name].reader:
        return _drop_writer_feature(snapshot, name, engine, parameters, commit_properties)
    traces, properties = TRACES[name], without_transactions(commit_properties)
    clean = latest = _disable(snapshot, traces, engine, properties)
    rewritten = pa.chunked_array([], pa.string())
    if traces.rewrite is not None:
        rewritten = traces.rewrite(clean, engine, properties)
        latest = clean.update()
    if truncate_history:
        _check_clean(clean, latest, name, rewritten)
        clean = latest = _remove_metadata_traces(latest, name, traces, properties)
        latest = truncate(latest, name, properties)
        _check_clean(clean, latest, name, rewritten)
        return _commit_drop(snapshot, latest, name, parameters, commit_properties)
    for _ in range(_BARRIERS):
        commit_change(latest, "Empty Commit", {}, commit_properties=properties)
        latest = latest.update()
        checkpoint(latest)
    _check_clean(clean, latest, name, rewritten)
    protected = checkpoint_protection.with_protection(traces.without_traces(latest.metadata), latest.version + 1)
    features = [checkpoint_protection.FEATURE.name]
    result = _commit_drop(snapshot, latest, name, parameters, commit_properties, metadata=protected, features=features)
    try:
        checkpoint(latest.update())
    except DeltaError:  # only readers that check the protocol of every commit need this checkpoint
        logger.warning("no checkpoint was written after the feature %s was dropped", name, exc_info=True)
    return result


def _drop_writer_feature(
    snapshot: Snapshot,
    name: str,
    engine: Engine,
    parameters: Mapping[str, Any],
    properties: CommitProperties | None,
) -> OperationResult:
    """Remove the traces of the feature and the feature itself. Older versions do not need it."""
    traces, latest = TRACES.get(name, Traces()), snapshot
    if traces.disable is not None:
        latest = _disable(snapshot, traces, engine, without_transactions(properties))
        check_drop(latest, name)
        _check_files(latest, name)
    enabled = _enabling_properties(latest, traces)
    change = TableChange(
        "DROP FEATURE",
        parameters,
        metadata=_without(latest.metadata, enabled) if enabled else None,
        protocol=without_feature(latest.protocol, name),
        domains=tuple(
            replace(latest.domains[domain], removed=True) for domain in traces.domains if domain in latest.domains
        ),
    )
    version = version_of(change.on(latest, latest.store).commit(properties))
    return OperationResult(snapshot.store.root, snapshot.version, version)


def _commit_drop(
    snapshot: Snapshot,
    latest: Snapshot,
    name: str,
    parameters: Mapping[str, Any],
    properties: CommitProperties | None,
    *,
    metadata: Metadata | None = None,
    features: Sequence[str] = (),
) -> OperationResult:
    """Commit the protocol without the feature; any concurrent commit is a conflict.

    Args:
        snapshot: the version from which the drop was planned.
        metadata: the new metadata; None: unchanged.
        features: features that the protocol gets.
    """
    protocol = without_feature(with_features(latest.protocol, features), name)
    change = TableChange("DROP FEATURE", parameters, metadata=metadata, protocol=protocol, is_exclusive=True)
    version = version_of(change.on(latest, latest.store).commit(properties))
    return OperationResult(snapshot.store.root, snapshot.version, version)


def _remove_metadata_traces(
    snapshot: Snapshot, name: str, traces: Traces, properties: CommitProperties | None
) -> Snapshot:
    """Remove the traces of the feature from the metadata, and return the new version."""
    metadata = traces.without_traces(snapshot.metadata)
    if metadata == snapshot.metadata:
        return snapshot
    change = TableChange("CHANGE COLUMNS", {"droppedFeature": name}, metadata=metadata, is_exclusive=True)
    version_of(change.on(snapshot, snapshot.store).commit(properties))
    return snapshot.update()


def _disable(snapshot: Snapshot, traces: Traces, engine: Engine, properties: CommitProperties | None) -> Snapshot:
    """Disable the feature, so that later writers do not use it, and return the new version."""
    if traces.disable is not None:
        traces.disable(snapshot, engine, properties)
        return snapshot.update()
    enabled = _enabling_properties(snapshot, traces)
    if not enabled:
        return snapshot
    commit_change(
        snapshot,
        "UNSET TBLPROPERTIES",
        {"properties": enabled, "ifExists": True},
        metadata=_without(snapshot.metadata, enabled),
        commit_properties=properties,
    )
    return snapshot.update()


def _enabling_properties(snapshot: Snapshot, traces: Traces) -> list[str]:
    return [key for key in traces.properties if key in snapshot.configuration]


def _without(metadata: Metadata, properties: Collection[str]) -> Metadata:
    configuration = {key: value for key, value in metadata.configuration.items() if key not in properties}
    return replace(metadata, configuration=configuration)


def _check_clean(clean: Snapshot, latest: Snapshot, name: str, rewritten: pa.ChunkedArray) -> None:
    """Refuse the drop if a concurrent commit has enabled the feature, or has brought back a file that needs it."""
    before, after = ((side.protocol, side.metadata) for side in (clean, latest))
    breaking = find_change(before, after, range(clean.version + 1, latest.version + 1), latest.store)
    if breaking is not None:
        raise breaking
    _check_files(latest, name, rewritten)


def _check_files(latest: Snapshot, name: str, rewritten: pa.ChunkedArray | None = None) -> None:
    """Refuse the drop if the latest version has files that need the feature.

    Args:
        rewritten: the log paths of files that needed the feature and were rewritten.
    """
    is_back = (
        rewritten is not None and pc.any(pc.is_in(latest.file_columns(["path"])["path"], value_set=rewritten)).as_py()
    )
    if is_back or TRACES[name].are_in_files(latest):
        raise InvalidArgumentError(
            f"the feature {name} cannot be dropped: files that need it are in the latest version",
            table=latest.store.root,
            version=latest.version,
            hint="Drop the feature again",
            code="DELTA_FEATURE_IN_USE",
        )
