"""What to do about errors of this machine's file systems, by their number."""

from __future__ import annotations

import errno

_PERMISSION = "Let this user write to the table's folder"
_SPACE = "Make room: nothing was committed, and what was written for it is taken by vacuum"
#: Errors when a folder or object cannot be made because something else is in its place.
NO_FOLDER = (errno.EEXIST, errno.ENOTDIR, errno.ELOOP)
NO_FOLDER_HINT = "Choose another location for the table, or move away what is there"
#: Of errors that trying again does not change.
REFUSAL_HINTS = {
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "The file system is mounted for reading only",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "Commit fewer files at once",
    errno.ENAMETOOLONG: "Use shorter names",
    **dict.fromkeys(NO_FOLDER, NO_FOLDER_HINT),
}
