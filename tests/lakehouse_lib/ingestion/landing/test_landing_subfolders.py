"""Landing folders with subfolders, and names by pattern."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import InvalidArgumentError, LandingError
from lakehouse_lib.ingestion.landing import folder as folder_module
from lakehouse_lib.ingestion.landing import open_landing
from lakehouse_lib.ingestion.name_pattern import NamePattern
from tests.landed_files import landed, listed

DATED = ["2024/01/a.csv", "2024/01/b.csv", "2024/02/a.csv", "2024-x/a.csv", "2024.csv", "a.csv.gz", "region=eu/d/a.csv"]
HIDDEN = ["_log/a.csv", ".git/a.csv", "2024/_SUCCESS", "2024/.a.csv", "2024/a.csv.tmp", "x.tmp/a.csv"]


def land(landing: Path, *names: str) -> None:
    for name in names:
        (landing / name).parent.mkdir(parents=True, exist_ok=True)
        (landing / name).write_text("id\n1\n")


def names(landing: Path, pattern: str, after: str = "") -> list[str]:
    return list(listed(open_landing(landing, pattern=pattern), after))


def matches(name: str, pattern: str) -> bool:
    """The meaning of a pattern, part by part."""
    if "/" not in pattern:
        return "/" not in name and fnmatchcase(name, pattern)
    first, _, rest = pattern.partition("/")
    folder, slash, below = name.partition("/")
    if first == "**":
        return matches(name, rest) or (bool(slash) and matches(below, pattern))
    return bool(slash) and fnmatchcase(folder, first) and matches(below, rest)


@pytest.mark.parametrize(
    "pattern",
    [
        "**/*",
        "**/*.csv",
        "*.csv",
        "*",
        "2024/*/*.csv",
        "2024/01/*",
        "region=*/**/a.csv",
        "**/0[2-9]/*",
        "**/[!a]*",
        "20?4/**/*",
    ],
)
def test_a_pattern_chooses_names_and_the_listing_is_sorted_by_their_bytes(tmp_path: Path, pattern: str) -> None:
    land(tmp_path, *DATED, *HIDDEN)
    expected = sorted(name for name in DATED if matches(name, pattern))
    assert names(tmp_path, pattern) == expected
    for after in DATED:
        assert names(tmp_path, pattern, after) == [name for name in expected if name > after]


@given(
    st.lists(st.text("ab[]-^\\.é*", min_size=1, max_size=4), min_size=1, max_size=4),
    st.lists(
        st.sampled_from(["*", "a*", "?", "[ab]", "[!b]?", "[]-]", "[!]]", "**", "é.", "[^a]", "\\"]),
        min_size=1,
        max_size=3,
    ),
)
def test_patterns_mean_what_fnmatch_means_in_each_part(parts: list[str], pattern_parts: list[str]) -> None:
    text, name = "/".join(pattern_parts), "/".join(parts)
    if pattern_parts[-1] == "**":
        with pytest.raises(InvalidArgumentError, match=r"ends with \*\*"):
            NamePattern(text)
        return
    is_hidden = any(part.startswith((".", "_")) or part.endswith(".tmp") for part in parts)
    is_match = matches(name, text) and not is_hidden
    assert NamePattern(text).matches(pa.array([name])).to_pylist() == [is_match]
    if is_match:
        assert all(NamePattern(text).may_match_below("/".join(parts[:depth])) for depth in range(1, len(parts)))


@pytest.mark.parametrize("folder", ["2023", "2024/x", "2024/01/a/b", "_log", "2024/.x", "2024/a.tmp"])
def test_a_pattern_matches_nothing_below_other_folders(folder: str) -> None:
    assert NamePattern("2024/0?/*/*.csv").may_match_below("2024/01")
    assert not NamePattern("2024/0?/*/*.csv").may_match_below(folder)


@pytest.mark.parametrize("text", ["", "/a", "a//b", "../*", "a/**", "a**/b", "_x/*", ".x", "[z-a]"])
def test_a_text_that_is_not_a_pattern_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(f"pattern is {text!r}")) as refusal:
        NamePattern(text)
    assert refusal.value.code == "DELTA_INVALID_SOURCE"


def test_folders_that_a_pattern_or_a_name_excludes_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    land(tmp_path, *DATED)
    read: list[str] = []
    entries = folder_module.LandingFolder._entries

    def noted(self: folder_module.LandingFolder, handle: int, prefix: str) -> object:
        read.append(prefix)
        return entries(self, handle, prefix)

    monkeypatch.setattr(folder_module.LandingFolder, "_entries", noted)
    names(tmp_path, "**/*.csv", "2024/01/b.csv")
    assert read == ["", "2024/", "2024/01/", "2024/02/", "region=eu/", "region=eu/d/"]
    read.clear()
    names(tmp_path, "2024/*/a.csv")
    assert read == ["2024/", "2024/01/", "2024/02/"]
    read.clear()
    names(tmp_path, "*")
    assert read == [""]


def test_listings_of_many_files_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "_ROWS", 4)
    expected = sorted(f"{folder}{number}" for folder in ("", "a/", "b/") for number in range(11))
    land(tmp_path, *expected)
    tables = list(open_landing(tmp_path, pattern="**/*").files())
    assert max(table.num_rows for table in tables) < 8
    assert pa.concat_tables(tables)["name"].to_pylist() == expected


def test_links_to_folders_are_refused_and_links_to_files_are_followed_inside(tmp_path: Path) -> None:
    landing, outside = tmp_path / "landing", tmp_path / "outside"
    land(landing, "day/a.csv")
    land(outside, "secret.csv")
    (landing / "again.csv").symlink_to("day/a.csv")
    assert names(landing, "**/*") == ["again.csv", "day/a.csv"]
    with landed(landing / "again.csv").open() as content:
        assert content.read() == b"id\n1\n"
    link = open_landing(landing, pattern="**/*").find("again.csv")
    assert link == listed(open_landing(landing, pattern="**/*"))["again.csv"]
    for target in (outside, landing / "day"):
        (landing / "day/link").symlink_to(target)
        with pytest.raises(LandingError, match=r"day/link is a link to a folder"):
            names(landing, "**/*.csv")
        assert names(landing, "*.csv") == ["again.csv"]
        (landing / "day/link").unlink()
    (landing / "day/b.csv").symlink_to(outside / "secret.csv")
    with pytest.raises(LandingError, match=r"day/b\.csv is a link to .*secret\.csv"):
        names(landing, "**/*.csv")


@pytest.mark.parametrize("pattern", ["link/*.csv", "link/day/*.csv", "year/link/**/*"])
def test_a_link_at_the_start_of_a_pattern_is_refused(tmp_path: Path, pattern: str) -> None:
    land(tmp_path, "folder/a.csv", "folder/day/a.csv", "year/a.csv")
    link = tmp_path / pattern[: pattern.index("link") + 4]
    assert names(tmp_path, pattern) == []  # a folder without files yet
    link.symlink_to(tmp_path / "folder")
    with pytest.raises(LandingError, match=f"{link} is a link to a folder"):
        names(tmp_path, pattern)


def test_a_folder_that_is_replaced_by_a_link_is_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing, outside = tmp_path / "landing", tmp_path / "outside"
    land(landing, "day/a.csv", "other/b.csv")
    land(outside, "a.csv", "secret.csv")
    opened = open_landing(landing, pattern="**/*")
    file = listed(opened)["day/a.csv"]
    taken = opened.fingerprint(file)
    assert taken is not None
    (landing / "day").rename(tmp_path / "moved")
    (landing / "day").symlink_to(outside)
    for look in (lambda: opened.fingerprint(file), lambda: opened.open(taken), lambda: opened.find("day/a.csv")):
        with pytest.raises(LandingError, match=r"day/a\.csv is a link to"):
            look()
    # The link comes between the check and the opening.
    monkeypatch.setattr(folder_module.LandingFolder, "_real", lambda self, name: Path(os.path.realpath(landing)) / name)
    with pytest.raises(OSError):
        opened.open(taken)


def test_paths_without_links_are_not_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolving looks at every part of a path: for 2,000 small files it took half a second of a load."""
    land(tmp_path, "day/a.csv")
    monkeypatch.setattr(folder_module.LandingFolder, "_real", lambda _, name: pytest.fail(f"{name} was resolved"))
    opened = open_landing(tmp_path, pattern="**/*")
    file = listed(opened)["day/a.csv"]
    taken = opened.fingerprint(file)
    assert taken is not None
    assert opened.find("day/a.csv") == file
    with opened.open(taken) as content:
        assert content.read() == b"id\n1\n"


def test_a_file_is_found_and_read_without_the_right_to_list_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path, "day/a.csv")
    opened = open_landing(tmp_path, pattern="**/*")
    file = listed(opened)["day/a.csv"]
    flags: list[int] = []
    open_path = os.open

    def noting(path: str, mode: int, **options: Any) -> int:
        flags.append(mode)
        return open_path(path, mode, **options)

    monkeypatch.setattr(os, "open", noting)
    assert opened.find("day/a.csv") == file
    assert opened.fingerprint(file) is not None
    folders = [mode for mode in flags if mode & os.O_DIRECTORY]
    assert len(folders) == 4
    assert all(mode & os.O_PATH for mode in folders)


def test_a_folder_that_becomes_a_link_during_a_listing_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing, outside = tmp_path / "landing", tmp_path / "outside"
    land(landing, "day/a.csv", "zz.csv")
    land(outside, "secret.csv")
    entries = folder_module.LandingFolder._entries

    def replaced(self: folder_module.LandingFolder, handle: int, prefix: str) -> object:
        answer = entries(self, handle, prefix)
        if prefix == "":
            (landing / "day").rename(tmp_path / "moved")
            (landing / "day").symlink_to(outside)
        return answer

    monkeypatch.setattr(folder_module.LandingFolder, "_entries", replaced)
    assert names(landing, "**/*") == ["zz.csv"]
