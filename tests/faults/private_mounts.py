"""Mounts that are visible in this process only and end with it (Linux only)."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


def small_disk(folder: Path, size: int) -> bool:
    """Mount an empty file system of ``size`` bytes at ``folder``; False if the kernel refuses.

    Root needs only a new mount namespace, other users also a user namespace.
    """
    user, group = os.getuid(), os.getgid()
    try:
        if user == 0:
            _called(_libc.unshare(_CLONE_NEWNS))
        else:
            _called(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        _called(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
        _called(_libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()))
    except OSError:
        return False
    return True


def _called(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
