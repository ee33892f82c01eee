from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib.errors import LandingError, SourceRefusedError
from lakehouse_lib.ingestion.landing import open_landing
from lakehouse_lib.ingestion.sources.csv import read_csv
from lakehouse_lib.ingestion.sources.json.reader import read_json
from lakehouse_lib.ingestion.sources.parquet import read_parquet
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from tests.landed_files import landed, listed

SCHEMA = pa.schema([("id", pa.int64())])
READERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    "csv": lambda path: read_csv(landed(path), SourceFormat("csv"), SCHEMA),
    "json": lambda path: read_json(landed(path), SourceFormat("json"), SCHEMA),
    "parquet": lambda path: read_parquet(landed(path), SCHEMA),
}


def test_finds_files_by_name_and_leaves_unfinished_ones_alone(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", ".hidden.csv", "_started.csv", "c.csv.tmp"):
        (tmp_path / name).write_text("x")
    assert list(listed(tmp_path)) == ["a.csv", "b.csv"]
    assert listed(tmp_path)["a.csv"].size == 1


def test_missing_landing_folder(tmp_path: Path) -> None:
    with pytest.raises(LandingError, match="nowhere does not exist"):
        listed(tmp_path / "nowhere")


def test_landing_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(LandingError, match="is a file"):
        listed(tmp_path / "file")


def test_folder_in_the_landing_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "2024").mkdir()
    with pytest.raises(LandingError, match="2024 is a folder"):
        listed(tmp_path)


def test_dangling_link_is_left_for_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to(tmp_path / "gone")
    assert listed(tmp_path) == {}


def test_device_in_the_landing_folder_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LandingError, match="pipe is not a regular file"):
        listed(tmp_path)


def test_a_name_that_is_not_utf8_is_refused_before_it_is_recorded(tmp_path: Path) -> None:
    for name in (b"caf\xe9.csv", b"_caf\xe9.csv"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x")
    with pytest.raises(LandingError, match=r"/caf\\xe9\.csv has a name that is not UTF-8") as refused:
        listed(tmp_path)
    str(refused.value).encode()
    assert "Rename it" in str(refused.value)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")).rename(tmp_path / "caf\u00e9.csv")
    assert list(listed(tmp_path)) == ["caf\u00e9.csv"]


def test_fingerprints_differ_for_different_content_of_the_same_size(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("one")
    before = open_landing(tmp_path).fingerprint(listed(tmp_path)["a.csv"])
    path.write_text("two")
    after = open_landing(tmp_path).fingerprint(listed(tmp_path)["a.csv"])
    assert before is not None
    assert after is not None
    assert before.size == after.size
    assert before.digest != after.digest


def test_no_fingerprint_of_a_file_that_changed_since_the_listing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("one")
    file = listed(tmp_path)["a.csv"]
    (tmp_path / "a.csv").write_text("longer")
    assert open_landing(tmp_path).fingerprint(file) is None


def test_name_in_an_intent_cannot_lead_out_of_the_landing_folder(tmp_path: Path) -> None:
    with pytest.raises(LandingError, match="is not the name of a file"):
        open_landing(tmp_path).find("../secret.csv")


def test_links_that_lead_out_of_the_landing_folder_are_refused(tmp_path: Path) -> None:
    landing, secret = tmp_path / "landing", tmp_path / "secret.csv"
    landing.mkdir()
    secret.write_text("id\n1\n")
    (landing / "a.csv").symlink_to(secret)
    with pytest.raises(LandingError, match=rf"a\.csv is a link to {secret}"):
        listed(landing)
    (landing / "a.csv").rename(landing / "_a.csv")
    assert listed(landing) == {}
    (landing / "through.csv").symlink_to("_a.csv")
    with pytest.raises(LandingError, match=r"through\.csv is a link"):
        listed(landing)


def test_links_within_the_landing_folder_and_the_folder_as_a_link_are_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "a.csv").write_text("id\n1\n")
    (tmp_path / "disk" / "b.csv").symlink_to("a.csv")
    (tmp_path / "landing").symlink_to("disk")
    files = listed(tmp_path / "landing")
    assert list(files) == ["a.csv", "b.csv"]
    digests = {open_landing(tmp_path / "landing").fingerprint(file).digest for file in files.values()}  # type: ignore[union-attr]
    assert len(digests) == 1


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
@pytest.mark.parametrize("what", ["link", "FIFO"])
def test_a_link_or_fifo_that_replaces_a_file_is_not_read(tmp_path: Path, kind: str, what: str) -> None:
    path = tmp_path / "landing" / f"a.{kind}"
    path.parent.mkdir()
    path.write_text("id\n1\n")
    (file,) = listed(path.parent).values()
    path.rename(tmp_path / "elsewhere")
    if what == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(path)
    expected = "is a link to" if what == "link" else "it is a FIFO"
    with pytest.raises(LandingError, match=expected):
        open_landing(path.parent).fingerprint(file)
    with pytest.raises((LandingError, SourceRefusedError), match=expected):
        list(READERS[kind](path))
