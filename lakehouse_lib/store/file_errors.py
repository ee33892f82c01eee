"""Hints for errors of local file systems, by errno, and descriptions of files that have the name of a folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_PERMISSION = "Let this user write to the table's folder"
_SPACE = "Free some space: nothing was committed, and vacuum deletes the files that were written"
#: Errors if a folder or object cannot be created because a file has the name of a folder.
NO_FOLDER = (errno.EEXIST, errno.ENOTDIR, errno.ELOOP)
NO_FOLDER_HINT = "Choose another location for the table, or move the obstacle away"
#: Hints for errors that a retry does not fix.
REFUSAL_HINTS = {
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "The file system is mounted read-only",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "Commit fewer files at once",
    errno.ENAMETOOLONG: "Use shorter names",
    **dict.fromkeys(NO_FOLDER, NO_FOLDER_HINT),
}


def obstacle_of(file: Path) -> str | None:
    """A description of the first parent of ``file`` that exists and is not a folder; None: there is no such parent."""
    for parent in reversed(file.parents):
        if os.path.lexists(parent) and not parent.is_dir():
            if parent.is_symlink():
                return f"{parent} is a link to {str(parent.readlink())!r}, which is not a folder"
            return f"{parent} is a file"
    return None
