"""Which hooks run after a commit, under the name of the ``deltalake`` package."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt


@dataclass(frozen=True)
class PostCommitHookProperties:
    """Which hooks run after a commit. The checksum of the commit is always written.

    Args:
        create_checkpoint: write the checkpoint that is due by ``delta.checkpointInterval``. False: the next checkpoint
            is due after the next interval.
        cleanup_expired_logs: True: delete expired log files after this commit, even without a checkpoint, and even if
            ``delta.enableExpiredLogCleanup`` is false; False: do not; None: after a checkpoint, if it is true.

    Raises:
        InvalidArgumentError: a value is not a Boolean.
    """

    create_checkpoint: bool = True
    cleanup_expired_logs: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.create_checkpoint, bool):
            raise _invalid("create_checkpoint", self.create_checkpoint, "True or False")
        if self.cleanup_expired_logs is not None and not isinstance(self.cleanup_expired_logs, bool):
            raise _invalid("cleanup_expired_logs", self.cleanup_expired_logs, "True, False or None")


def _invalid(name: str, value: object, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} is {excerpt(value)}; expected {expected}",
        hint="Give a Boolean, or leave it out",
        code="DELTA_INVALID_COMMIT_PROPERTIES",
    )
