"""Hints for errors of local file systems, by errno."""

from __future__ import annotations

import errno

_PERMISSION = "Let this user write to the table's folder"
_SPACE = "Free some space: nothing was committed, and vacuum deletes the files that were written"
#: Errors if a folder or object cannot be made because a file is in its place.
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
