"""The errors of the plugin itself. The module ``failures`` translates those of the library.

    AirflowFailException           a retry does not help
    └── TaskError
        ├── InvalidParameterError    a parameter of an operator, a param of the DAG run or an XCom value
        ├── InvalidConnectionError   an Airflow connection
        ├── RegistryValueError       a value that this task needs from the registry
        ├── NotApprovedError         a plan without a valid approval
        ├── PlanOutdatedError        tables or the registry changed after the plan
        ├── NotErasedError           files with rows of an erased person remain
        └── TableDamagedError        files that the library cannot repair
    AirflowException               a retry may help
    └── JobError                     a Spark job that did not start, or that left no outcome

The text of an error begins with its code, as in the library; docs/errors.md lists the codes.
"""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException


class TaskError(AirflowFailException):
    """A task failed, and a retry does not help.

    Attributes:
        code: the stable code of the problem.
    """

    code: str

    def __init__(self, message: str) -> None:
        super().__init__(f"[{self.code}] {message}")


class InvalidParameterError(TaskError):
    """A parameter of an operator, a param of the DAG run or an XCom value is not valid."""

    code = "LAKEHOUSE_INVALID_PARAMETER"


class InvalidConnectionError(TaskError):
    """An Airflow connection is missing, or has a value that cannot be used."""

    code = "LAKEHOUSE_INVALID_CONNECTION"


class RegistryValueError(TaskError):
    """The registry lacks a value that this task needs, or has one that this task cannot use."""

    code = "LAKEHOUSE_REGISTRY_VALUE"


class NotApprovedError(TaskError):
    """A plan has no valid approval."""

    code = "LAKEHOUSE_NOT_APPROVED"


class PlanOutdatedError(TaskError):
    """Tables, their rows or the registry changed after the plan, and the task has changed nothing."""

    code = "LAKEHOUSE_PLAN_OUTDATED"


class NotErasedError(TaskError):
    """Files with rows of the erased person remain."""

    code = "LAKEHOUSE_NOT_ERASED"


class TableDamagedError(TaskError):
    """A table lacks files that the library cannot repair."""

    code = "LAKEHOUSE_TABLE_DAMAGED"


class JobError(AirflowException):
    """A Spark job did not start, or left no outcome. A retry may help.

    Attributes:
        code: the stable code of the problem.
    """

    code = "LAKEHOUSE_JOB_FAILED"

    def __init__(self, message: str) -> None:
        super().__init__(f"[{self.code}] {message}")
