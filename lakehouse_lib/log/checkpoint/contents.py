"""The rows of a version's checkpoint, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakehouse_lib.arrow.values import column
from lakehouse_lib.log import clock
from lakehouse_lib.log.checkpoint.parallel import read_ahead
from lakehouse_lib.log.replay.replay import TableState
from lakehouse_lib.log.replay.transaction_retention import unexpired_transactions

#: Pieces that are read ahead, of some thousand rows each.
_PIECES_AHEAD = 4


def non_file_actions(state: TableState, schema: pa.Schema) -> Iterator[tuple[str, pa.Array]]:
    """The protocol, metadata, transactions and domains of the version as structs of ``schema``, by action name.

    Expired transactions are left out.
    """
    assert state.metadata is not None
    assert state.protocol is not None
    transactions = unexpired_transactions(state.transactions, state.metadata.configuration, clock.now())
    bodies = {
        "protocol": [state.protocol.to_json()],
        "metaData": [state.metadata.to_json()],
        "txn": [transaction.to_json() for transaction in transactions.values()],
        "domainMetadata": [domain.to_json() for domain in state.domains.values()],
    }
    for name, actions in bodies.items():
        if actions:
            yield name, column(actions, schema.field(name).type)


def tables_of_rows(pieces: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The rows of ``pieces`` in tables of ``rows`` rows. The next pieces are read ahead.

    The last table may have fewer rows; no table is empty.
    """
    waiting: list[pa.Table] = []
    count = 0
    for piece in read_ahead(pieces, _PIECES_AHEAD):
        while len(piece):
            waiting.append(piece[: rows - count])
            piece = piece[rows - count :]
            count += len(waiting[-1])
            if count == rows:
                yield pa.concat_tables(waiting)
                waiting, count = [], 0
    if waiting:
        yield pa.concat_tables(waiting)
