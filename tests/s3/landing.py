"""A landing folder on a real S3 server: listings, ranges, replaced objects, and loads that are killed."""

import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from lakehouse_lib.errors import StoreError
from lakehouse_lib.ingestion.landing import is_changed, open_landing
from lakehouse_lib.store import open_store
from tests.landed_files import listed
from tests.named_files import NamedFiles

LOADER = """
import json, sys
from lakehouse_lib.ingestion.state import source_state
from tests.named_files import NamedFiles

source_state._MOST_BATCHES = 3
files = NamedFiles(sys.argv[1], json.loads(sys.argv[2]))
print("ready", flush=True)
while True:
    files.run()
"""


@pytest.fixture
def store(server, location):
    return open_store(location, server.options)


def test_files_are_listed_by_name_and_after_a_name(server, location, store):
    names = ["2024/05/a.csv", "2024/05/b.csv.gz", "2024/06/a.csv", "2024-x/é.csv", "z.csv"]
    for name in [*names, "_begun/a.csv", "2024/.hidden", "2024/c.tmp"]:
        store.put(name, name.encode())
    landing = open_landing(location, server.options, pattern="**/*")
    assert list(listed(landing)) == sorted(names)
    for after in (*names, "2024/05", "2024/05/", "zz"):
        assert list(listed(landing, after)) == [name for name in sorted(names) if name > after]
    assert list(listed(open_landing(location, server.options, pattern="2024/*/*.csv"))) == names[:1] + names[2:3]


def test_ranges_of_an_object_and_of_its_successor_are_not_mixed(server, location, store):
    content = np.random.default_rng(1).bytes(20 << 20)
    store.put("a", content)
    landing = open_landing(location, server.options)
    file = landing.fingerprint(listed(landing)["a"])
    with landing.open(file) as opened:
        assert opened.read() == content
        opened.seek(15 << 20)
        assert opened.read(100) == content[15 << 20 : (15 << 20) + 100]
    with landing.open(file) as opened:
        opened.read(10)
        store.put("a", content[::-1])
        with pytest.raises(OSError, match="replaced or deleted while it was read"):
            opened.read()
    assert is_changed(landing, file)


def test_credentials_that_may_not_read_are_an_error(server, location, store):
    store.put("a", b"1")
    options = {**server.options, "aws_secret_access_key": "another"}
    with pytest.raises(StoreError, match="SignatureDoesNotMatch"):
        listed(open_landing(location, options))


def test_loads_that_are_killed_load_each_file_once(server, location):
    """A loader is killed at random moments while files land. Batches are folded often."""
    import json

    numbers = random.Random(7)
    files = NamedFiles(location, server.options)
    command = [sys.executable, "-c", LOADER, location, json.dumps(server.options)]
    landed = []
    for kill in range(12):
        names = [f"{kill:02d}-{number}{'x' if number % 4 == 3 else ''}.csv" for number in range(10)]
        landed += [name for name in names if "x" not in name]
        files.land(*names)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as loader:
            assert loader.stdout.readline() == b"ready\n", loader.stderr.read().decode()
            time.sleep(numbers.uniform(0, 1.5))
            assert loader.poll() is None, loader.stderr.read().decode()
            loader.send_signal(signal.SIGKILL)
        assert len(set(files.loaded())) == len(files.loaded())
    files.run()
    assert files.loaded() == sorted(landed)
    assert files.state()[0].look().new.num_rows == 0
