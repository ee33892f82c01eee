"""The verdict on the last batch of a source: whether its rows passed the checks of the load."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.ingestion.append import is_rejects_application, last_batch, snapshot_if_any
from lakehouse_lib.ingestion.intent_log import IntentLog
from lakehouse_lib.ingestion.state.settled_files import read_segment
from lakehouse_lib.store import ObjectStore


@dataclass(frozen=True)
class Verdict:
    """The verdict on a batch.

    Attributes:
        batch: the number of the batch.
        loaded: whether the batch was loaded; False: a rule about the whole batch is broken, or each file is refused.
        refused: the number of files that were refused.
        has_rejected_rows: whether rows of the batch are in the quarantine.
    """

    batch: int
    loaded: bool
    refused: int
    has_rejected_rows: bool


def last_verdict(store: ObjectStore, source: str, quarantine: ObjectStore) -> Verdict | None:
    """The verdict on the last batch of a source; None: the source has no batch, or is loading it.

    Args:
        store: the store of the table.
        quarantine: the store of the table's quarantine.
    """
    intents = IntentLog(store, source)
    fold, recent, outcomes = intents.read_after_fold()
    number = max(recent, default=fold.through)
    if number < 0:
        return None
    if number in outcomes:
        loaded, refused = outcomes[number].given_up is None, len(outcomes[number].refused)
        table = last_batch(snapshot_if_any(store), source) if loaded else None
        if loaded and (table is None or table < number):
            return None  # decided, but not committed yet
    elif number in recent:
        return None
    else:  # the batch is folded; the newest segment has its files
        loaded = fold.loaded == number
        refused = _refused(read_segment(store, fold.segments[-1]), number) if fold.segments else 0
    identity = intents.find_identity()
    rejects = None if identity is None else snapshot_if_any(quarantine)
    has_rejected_rows = rejects is not None and any(
        is_rejects_application(app_id, source, str(identity)) and transaction.version >= number
        for app_id, transaction in rejects.transactions.items()
    )
    return Verdict(number, loaded, refused, has_rejected_rows)


def _refused(files: pa.Table, batch: int) -> int:
    return int(pc.sum(pc.and_(pc.equal(files["batch"], batch), pc.is_valid(files["refused"]))).as_py() or 0)
