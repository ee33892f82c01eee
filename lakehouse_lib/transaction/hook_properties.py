"""The properties of the hooks after a commit, under their name in the ``deltalake`` package."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt


@dataclass(frozen=True)
class PostCommitHookProperties:
    """The properties of the hooks that run after a commit.

    They do not affect the hooks for manifests and the checksum. The commit that creates a table ignores them, because
    it runs only the hook for manifests.

    Args:
        create_checkpoint: write the checkpoint that is due by ``delta.checkpointInterval``. False: the next checkpoint
            is due after the next interval.
        cleanup_expired_logs: True: delete expired log files after this commit, even without a checkpoint, and even if
            ``delta.enableExpiredLogCleanup`` is false. False: delete no log file. None: delete expired log files after
            a checkpoint, if ``delta.enableExpiredLogCleanup`` is true.

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
