"""Tables below a prefix in S3: their locations, and the requests that finding them makes."""

import pyarrow as pa

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.fleet.discover import discover
from lakehouse_lib.store import open_store


def test_tables_below_a_prefix_are_found_without_a_listing_of_their_files(s3_server, location):
    names = ["a", "b/c d", "b/e%20f", "b/ü#?"]
    store = open_store(location, s3_server.options)
    for name in names[:2]:
        write_deltalake(f"{location}/{name}", pa.table({"x": [1]}), storage_options=s3_server.options)
    for name in names[2:]:
        store.put(f"{name}/_delta_log/00000000000000000000.json", b"{}")
    for number in range(3):
        store.put(f"a/x={number}/part.parquet", b"x")
    store.put("b/none/readme.txt", b"x")
    s3_server.requests.clear()
    locations = list(discover(location, s3_server.options))
    listings = len(s3_server.requests)
    assert [open_store(each).root for each in locations] == [f"{location}/{name}" for name in names]
    assert DeltaTable(locations[1], storage_options=s3_server.options).count() == 1
    # A request for the log of each folder, and the folders without a table: the prefix, b and b/none.
    assert listings == len(["", "a", "b", "b/c d", "b/e%20f", "b/none", "b/ü#?"]) + 3
    assert list(discover(f"{location}/a", s3_server.options)) == [f"{location}/a"]
    assert list(discover(f"{location}/nothing", s3_server.options)) == []
