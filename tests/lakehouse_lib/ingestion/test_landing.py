from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakehouse_lib.errors import LandingError
from lakehouse_lib.ingestion.landing import SourceFile, fingerprint, inside, scan, still_growing


def test_finds_files_by_name_and_leaves_unfinished_ones_alone(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", ".hidden.csv", "_started.csv", "c.csv.tmp"):
        (tmp_path / name).write_text("x")
    assert list(scan(tmp_path)) == ["a.csv", "b.csv"]
    assert scan(tmp_path)["a.csv"].size == 1


def test_missing_landing_folder(tmp_path: Path) -> None:
    with pytest.raises(LandingError, match="nowhere does not exist"):
        scan(tmp_path / "nowhere")


def test_landing_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(LandingError, match="is a file"):
        scan(tmp_path / "file")


def test_folder_in_the_landing_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "2024").mkdir()
    with pytest.raises(LandingError, match="2024 is a folder"):
        scan(tmp_path)


def test_dangling_link_is_left_for_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to(tmp_path / "gone")
    assert scan(tmp_path) == {}


def test_device_in_the_landing_folder_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LandingError, match="pipe is not a readable file"):
        scan(tmp_path)


def test_name_that_is_not_utf8_is_refused_before_it_is_written_down(tmp_path: Path) -> None:
    for name in (b"caf\xe9.csv", b"_caf\xe9.csv"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x")
    with pytest.raises(LandingError, match=r"/caf\\xe9\.csv has a name that is not UTF-8") as refused:
        scan(tmp_path)
    str(refused.value).encode()
    assert "Rename it" in str(refused.value)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")).rename(tmp_path / "caf\u00e9.csv")
    assert list(scan(tmp_path)) == ["caf\u00e9.csv"]


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        (SourceFile("a", 5, 0), SourceFile("a", 5, 0), False),
        (SourceFile("a", 5, 0), SourceFile("a", 6, 0), True),
        (None, SourceFile("a", 5, 0), True),
        (SourceFile("a", 5, 95_000), SourceFile("a", 5, 95_000), True),
        (SourceFile("a", 5, 90_000), SourceFile("a", 5, 90_000), False),
    ],
    ids=["settled", "grown", "new at the second look", "modified just now", "modified long enough ago"],
)
def test_growing_file_waits(first: SourceFile | None, second: SourceFile, waits: bool) -> None:
    before = {} if first is None else {"a": first}
    assert still_growing(before, {"a": second}, now=100_000, settle=10_000) == ({"a"} if waits else set())


def test_fingerprint_tells_content_of_the_same_size_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("one")
    before = fingerprint(tmp_path, scan(tmp_path)["a.csv"])
    path.write_text("two")
    after = fingerprint(tmp_path, scan(tmp_path)["a.csv"])
    assert before is not None
    assert after is not None
    assert before.size == after.size
    assert before.digest != after.digest


def test_no_fingerprint_of_a_file_that_changed_since_the_look(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("one")
    seen = scan(tmp_path)["a.csv"]
    (tmp_path / "a.csv").write_text("longer")
    assert fingerprint(tmp_path, seen) is None


def test_name_in_an_intent_cannot_lead_out_of_the_landing_folder(tmp_path: Path) -> None:
    with pytest.raises(LandingError, match="is not the name of a file"):
        inside(tmp_path, ["../secret.csv"])
