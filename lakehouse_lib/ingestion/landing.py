"""The landing folder: list its source files, and find those that may still be growing.

A link in the folder must not lead out of it; else a user with write access to the folder could make the job read any
file. The folder itself may be a link. Hidden files (``.name``), names that start with ``_`` and ``*.tmp`` are skipped,
because writers give such names to unfinished files. A subfolder is an error, because its files would not be loaded.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from lakehouse_lib.errors import LandingError
from lakehouse_lib.store.regular_files import open_regular
from lakehouse_lib.store.uris import is_utf8

_DIGEST_CHUNK = 1 << 20


@dataclass(frozen=True)
class SourceFile:
    """A file of the landing folder: ``size`` in bytes, ``modified`` in ms since the epoch."""

    name: str
    size: int
    modified: int


@dataclass(frozen=True)
class Fingerprint:
    """The identity of a source file's content; ``digest`` is the BLAKE2b of the whole content, in hexadecimal."""

    name: str
    size: int
    modified: int
    digest: str

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Fingerprint:
        return cls(str(value["name"]), int(str(value["size"])), int(str(value["modified"])), str(value["digest"]))

    def same_stat(self, file: SourceFile) -> bool:
        return self.size == file.size and self.modified == file.modified


def scan(landing: Path) -> dict[str, SourceFile]:
    """The source files of a landing folder by name, sorted by name.

    Raises:
        LandingError: the path is missing, not a folder or not readable, or the folder has a subfolder, a link that
            leads out of it, an unreadable file, or a file whose name is not UTF-8 (the intent log and the quarantine
            cannot store such a name).
    """
    if not landing.exists():
        raise LandingError(f"the landing folder {landing} does not exist", hint="Create it, or correct --landing")
    if not landing.is_dir():
        raise LandingError(
            f"the landing path {landing} is a file; expected a folder", hint="Name the folder with the source files"
        )
    try:
        with os.scandir(landing) as entries:
            candidates = sorted(
                (entry for entry in entries if not _is_skipped(entry.name)), key=lambda entry: entry.name
            )
    except OSError as error:
        raise LandingError(
            f"the landing folder {landing} cannot be read: {error.strerror}", hint="Grant read and execute rights on it"
        ) from error
    files = {}
    for entry in candidates:
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue  # renamed or deleted since the listing; the next run sees the new state
        except OSError as error:
            raise LandingError(
                f"{landing / entry.name} cannot be read: {error.strerror}", hint="Correct or remove it"
            ) from error
        if entry.is_symlink() and is_utf8(entry.name):
            source_path(landing / entry.name)
        if stat.S_ISDIR(status.st_mode):
            raise LandingError(
                f"{landing / entry.name} is a folder; expected files only in a landing folder",
                hint="Load that folder as a source of its own, or rename it to start with '_'",
            )
        if not stat.S_ISREG(status.st_mode) or not os.access(entry.path, os.R_OK):
            raise LandingError(
                f"{landing / entry.name} is not a readable file", hint="Grant read rights on it, or remove it"
            )
        if not is_utf8(entry.name):
            raise LandingError(
                f"{_printable(landing / entry.name)} has a name that is not UTF-8",
                hint="Rename it; a name that starts with '_' is skipped",
            )
        files[entry.name] = SourceFile(entry.name, status.st_size, status.st_mtime_ns // 1_000_000)
    return files


def still_growing(
    first: Mapping[str, SourceFile], second: Mapping[str, SourceFile], *, now: int, settle: int
) -> set[str]:
    """Names of files in the second listing that may still be growing.

    Args:
        first, second: two listings of the folder; a file grows if it is new in the second or has another size there.
        now: the time of the second listing, in ms since the epoch.
        settle: a file modified less than this many ms ago may still be growing.
    """
    return {
        name
        for name, file in second.items()
        if abs(now - file.modified) < settle or name not in first or first[name].size != file.size
    }


def fingerprint(landing: Path, file: SourceFile) -> Fingerprint | None:
    """The fingerprint of a file; None if it changed or was deleted while it was read."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open(open_regular(source_path(landing / file.name), follow_links=False), "rb") as content:
            while chunk := content.read(_DIGEST_CHUNK):
                digest.update(chunk)
            status = os.fstat(content.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LandingError(
            f"{landing / file.name} cannot be read: {error.strerror}", hint="Grant read rights on it, or remove it"
        ) from error
    if (status.st_size, status.st_mtime_ns // 1_000_000) != (file.size, file.modified):
        return None
    return Fingerprint(file.name, file.size, file.modified, digest.hexdigest())


def source_path(path: Path) -> Path:
    """The real path of a source file; open it without following a link in its last part.

    Raises:
        LandingError: the file is a link that leads out of the landing folder.
    """
    real = Path(os.path.realpath(path))
    if real.parent != Path(os.path.realpath(path.parent)):
        raise LandingError(
            f"{path} is a link to {_printable(real)}; expected a file in the landing folder",
            hint="Replace the link by the file itself; a name that starts with '_' is skipped",
        )
    return real


def inside(landing: Path, names: Iterable[str]) -> list[Path]:
    """The paths of source files.

    Raises:
        LandingError: a name has more than one part, so that its path may be outside the landing folder.
    """
    paths = []
    for name in names:
        if Path(name).name != name:
            raise LandingError(f"{name!r} is not the name of a file in {landing}", hint="Give a name without folders")
        paths.append(landing / name)
    return paths


def _printable(path: Path) -> str:
    """The path with escapes such as ``\\xe9`` for bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _is_skipped(name: str) -> bool:
    return name.startswith((".", "_")) or name.endswith(".tmp")
