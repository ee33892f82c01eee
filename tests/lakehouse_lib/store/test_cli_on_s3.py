"""The command ``lakehouse`` on a table in S3, with storage options from a file."""

import json

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.cli.main import main
from tests.table_on_s3 import ids, rows


def test_options_of_a_folder_around_the_table_apply(s3_server, location, tmp_path, capsys):
    for start in (0, 100):
        write_deltalake(location, rows(start), mode="append", storage_options=s3_server.options)
    file = tmp_path / "options.json"
    folder = location.rpartition("/")[0]
    file.write_text(json.dumps({"s3://other-bucket": {"region": "nowhere"}, folder: s3_server.options}))
    assert main(["health", location, f"--storage-options-file={file}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"][0]["result"]["rows"] == 200
    assert main(["optimize", location, f"--storage-options-file={file}", "--run"]) == 0
    table = DeltaTable(location, storage_options=s3_server.options)
    assert len(table.file_uris()) == 1
    assert ids(table.to_pyarrow_table()) == list(range(200))
