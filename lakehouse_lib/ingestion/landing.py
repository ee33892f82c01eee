"""The landing folder: which source files lie there, and which of them have stopped growing.

A landing folder is flat, and nothing outside it is read by way of a link in it: anyone who may write there could
otherwise have any file shown that the job may read. The folder itself may be a link. Hidden files (``.name``), names
that start with ``_`` and ``*.tmp`` are left alone: that is how writers mark what is not finished or not data. A folder
inside it is an error, because what lies in there would be passed over in silence.
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
    """One file of the landing folder: ``size`` in bytes, ``modified`` in ms since the epoch."""

    name: str
    size: int
    modified: int


@dataclass(frozen=True)
class Fingerprint:
    """What a source file was when it was taken into a batch; ``digest`` is the BLAKE2b of the whole content, in hex."""

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
    """The source files of a landing folder by name, in the order of their names.

    Raises:
        LandingError: the path is missing, not a folder or not readable, or holds a folder, a link that leads out of it,
            a file that cannot be read or one whose name is not UTF-8, which neither the intent log nor the quarantine
            can write down.
    """
    if not landing.exists():
        raise LandingError(f"the landing folder {landing} does not exist", hint="Create it, or correct --landing")
    if not landing.is_dir():
        raise LandingError(f"the landing path {landing} is a file", hint="Name the folder that holds the source files")
    try:
        with os.scandir(landing) as entries:
            candidates = sorted(
                (entry for entry in entries if not _left_alone(entry.name)), key=lambda entry: entry.name
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
            continue  # renamed or taken away since the listing: the next run sees what became of it
        except OSError as error:
            raise LandingError(
                f"{landing / entry.name} cannot be looked at: {error.strerror}", hint="Correct or remove it"
            ) from error
        if entry.is_symlink() and is_utf8(entry.name):
            source_path(landing / entry.name)
        if stat.S_ISDIR(status.st_mode):
            raise LandingError(
                f"{landing / entry.name} is a folder; a landing folder is flat",
                hint="Give that folder a load of its own, or rename it to start with '_'",
            )
        if not stat.S_ISREG(status.st_mode) or not os.access(entry.path, os.R_OK):
            raise LandingError(
                f"{landing / entry.name} is not a readable file", hint="Grant read rights on it, or take it away"
            )
        if not is_utf8(entry.name):
            raise LandingError(
                f"{_printable(landing / entry.name)} has a name that is not UTF-8",
                hint="Rename it, or rename it to start with '_' to have it left alone",
            )
        files[entry.name] = SourceFile(entry.name, status.st_size, status.st_mtime_ns // 1_000_000)
    return files


def still_growing(
    first: Mapping[str, SourceFile], second: Mapping[str, SourceFile], *, now: int, settle: int
) -> set[str]:
    """Names of the second look whose files have not settled.

    Args:
        first, second: two looks at the folder; a size that differs between them, or a name only in one, is growth.
        now: time of the second look, in ms since the epoch.
        settle: a file modified less than this many ms ago may still be written to.
    """
    return {
        name
        for name, file in second.items()
        if abs(now - file.modified) < settle or name not in first or first[name].size != file.size
    }


def fingerprint(landing: Path, file: SourceFile) -> Fingerprint | None:
    """The file with the digest of its content; None when it changed or went away while it was read."""
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
            f"{landing / file.name} cannot be read: {error.strerror}", hint="Grant read rights on it, or take it away"
        ) from error
    if (status.st_size, status.st_mtime_ns // 1_000_000) != (file.size, file.modified):
        return None
    return Fingerprint(file.name, file.size, file.modified, digest.hexdigest())


def source_path(path: Path) -> Path:
    """The real path of a source file, whose last part must be no link when it is opened.

    Raises:
        LandingError: it is a link that leads out of the landing folder.
    """
    real = Path(os.path.realpath(path))
    if real.parent != Path(os.path.realpath(path.parent)):
        raise LandingError(
            f"{path} is a link to {_printable(real)}, which is outside the landing folder",
            hint="Put the file itself in its place, or rename the link to start with '_' to have it left alone",
        )
    return real


def inside(landing: Path, names: Iterable[str]) -> list[Path]:
    """Paths of source files by name; a name that leads out of the landing folder is a LandingError."""
    paths = []
    for name in names:
        if Path(name).name != name:
            raise LandingError(f"{name!r} is not the name of a file in {landing}", hint="Names must not hold a path")
        paths.append(landing / name)
    return paths


def _printable(path: Path) -> str:
    """The path with ``\\xe9`` for each byte that is none of UTF-8's."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _left_alone(name: str) -> bool:
    return name.startswith((".", "_")) or name.endswith(".tmp")
