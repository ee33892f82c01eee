"""Pin versions under a name: vacuum and log cleanup keep a pinned version until it is released."""

from __future__ import annotations

from datetime import datetime

from lakehouse_lib.errors import InvalidArgumentError, RetentionError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log import clock
from lakehouse_lib.log.history import moment_of
from lakehouse_lib.log.retention.cleanup import oldest_unexpired
from lakehouse_lib.log.retention.pins import NAME, Pin, delete_pin, list_pins, put_pin
from lakehouse_lib.operations.missing_files import missing_files_error, missing_paths
from lakehouse_lib.operations.results import PinResult
from lakehouse_lib.operations.upkeep.running_vacuum import check_files_stay
from lakehouse_lib.operations.upkeep.vacuum import newest
from lakehouse_lib.protocol.table_properties import LOG_RETENTION
from lakehouse_lib.snapshot import Snapshot, load_snapshot

_HOUR = 3_600_000
_DAY = 24 * _HOUR


def pin_version(snapshot: Snapshot, name: str, version: int | str | datetime | None = None) -> PinResult:
    """Pin a version under a name: vacuum keeps its files, and log cleanup keeps this version and all later versions.

    Nothing is committed. If the pin exists with this version, the version is only checked. The checks run after the pin
    is written, because a running vacuum or cleanup may have read the pins earlier. If a check fails, a new pin is
    deleted.

    Args:
        name: letters, digits, ``.``, ``_`` and ``-``, at most 100 characters.
        version: a version, or a time (a datetime or ISO 8601 text; UTC if it has no zone). A time selects the latest
            version that was committed at or before it. Default: the version of ``snapshot``.

    Raises:
        InvalidArgumentError: the name is not valid, or is in use for another version.
        VersionNotFoundError: the version does not exist, or was cleaned up.
        RetentionError: the version has expired, so a log cleanup that is running may delete it; or a vacuum may be
            running, and this machine's clock is ahead of the store's.
        ObjectNotFoundError: files of the version do not exist, for example because vacuum has deleted them.
        CommitFailedError: a vacuum is running, or was killed less than a day ago, and the latest version does not have
            all files of the version to pin.
    """
    store = snapshot.store
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"the name of a pin is {excerpt(name)}; expected up to 100 letters, digits, '.', '_' and '-'",
            table=store.root,
            hint="Begin it with a letter or a digit, as in model-2026-11",
            code="DELTA_INVALID_PIN",
        )
    pinned = _version_to_pin(snapshot, version)
    now = clock.now()
    since = now
    is_new = put_pin(store, Pin(name, pinned.version, now), pinned.files)
    if not is_new:
        other = next((pin for pin in list_pins(store) if pin.name == name), None)
        if other is None or other.version != pinned.version:
            raise InvalidArgumentError(
                f"the pin {name} {'was released meanwhile' if other is None else f'has version {other.version}'}; "
                f"expected version {pinned.version}",
                table=store.root,
                hint="Release the pin first, or use another name",
                code="DELTA_INVALID_PIN",
            )
        since = other.timestamp
    try:
        _check_kept(snapshot, pinned, is_young=since > now - _DAY)
    except BaseException:
        if is_new:
            delete_pin(store, name)
        raise
    return PinResult(store.root, snapshot.version, None, name, pinned.version)


def release_version(snapshot: Snapshot, name: str) -> PinResult:
    """Delete a pin, so that vacuum and log cleanup may delete the files of its version.

    Raises:
        InvalidArgumentError: no pin has this name.
    """
    store = snapshot.store
    pins = list_pins(store)
    pin = next((pin for pin in pins if pin.name == name), None)
    if pin is None:
        raise InvalidArgumentError(
            f"the pin {excerpt(name)} does not exist",
            table=store.root,
            hint=f"The pins are {', '.join(pin.name for pin in pins)}" if pins else "The table has no pins",
            code="DELTA_INVALID_PIN",
        )
    delete_pin(store, name)
    return PinResult(store.root, snapshot.version, None, name, pin.version)


def _version_to_pin(snapshot: Snapshot, version: int | str | datetime | None) -> Snapshot:
    store = snapshot.store
    if version is None:
        return snapshot
    if isinstance(version, str | datetime):
        return load_snapshot(store, timestamp=moment_of(version, store.root))
    return load_snapshot(store, version)


def _check_kept(snapshot: Snapshot, pinned: Snapshot, *, is_young: bool) -> None:
    """Check that all files of a pinned version exist, and that no running vacuum or cleanup can delete them.

    A running log cleanup may delete only versions that have expired.

    Args:
        is_young: whether a log cleanup that began before the pin may still run.
    """
    latest = newest(snapshot)
    if is_young:
        _check_unexpired(latest, pinned.version)
    check_files_stay(pinned, latest, "Nothing was pinned")
    missing = missing_paths(pinned.files, pinned.store)
    if len(missing):
        raise missing_files_error(missing, pinned, "Nothing was pinned. Pin a later version")
    load_snapshot(pinned.store, pinned.version)


def _check_unexpired(latest: Snapshot, version: int) -> None:
    """Refuse a pin of a version that a running log cleanup may delete. The cleanup's clock may be an hour ahead."""
    oldest = oldest_unexpired(latest.store, latest.metadata, latest.protocol, now=clock.now() + _HOUR)
    if oldest is not None and version < oldest:
        raise RetentionError(
            f"version {version} has expired, and a log cleanup may delete it at any time; expected at least version "
            f"{oldest}",
            table=latest.store.root,
            version=latest.version,
            hint=f"Nothing was pinned. To pin it, first set {LOG_RETENTION.key} to a longer time, and wait until no "
            "cleanup is running",
            code="DELTA_VERSION_EXPIRED",
        )
