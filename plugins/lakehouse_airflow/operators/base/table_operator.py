"""The base class of the operators that run in the task itself, without Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from lakehouse_airflow.assets import describe_events
from lakehouse_airflow.errors import as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.lineage import Lineage, openlineage_of
from lakehouse_airflow.links import TableVersionLink, result_version
from lakehouse_airflow.operators.base.rendered import read_rendered
from lakehouse_airflow.registry import require_registered
from lakehouse_airflow.task_metadata import task_metadata
from lakehouse_lib.catalogue.operation import Parameter

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakehouseTableOperator(BaseOperator):
    """Calls ``run`` for a table and returns the result of ``run`` (XCom).

    The link "Table version" leads to the result's ``version``, else to its ``read_version``. If the result has neither,
    there is no link. All arguments of this class are templated, except ``registered_only``.

    Args:
        table: a table's name in the registry, or its location.
        registered_only: accept only names in the registry. Set it if ``table`` is from XCom or a param, which users may
            edit.
        lakehouse_conn_id: as the argument of ``LakehouseHook``.

    Raises:
        AirflowFailException: a retry cannot help; the message is that of the library's error.
        AirflowException: the error may be temporary.
    """

    #: The parameters whose rendered texts are parsed like the options of a job's command line.
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    template_fields: Sequence[str] = ("table", "lakehouse_conn_id")
    operator_extra_links = (TableVersionLink(),)
    ui_color = "#e6f4ea"

    def __init__(
        self,
        *,
        table: str,
        registered_only: bool = False,
        lakehouse_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.registered_only = registered_only
        self.lakehouse_conn_id = lakehouse_conn_id
        self.result_version: tuple[str, int] | None = None
        self.lineage: Lineage | None = None

    @abstractmethod
    def run(self, hook: LakehouseHook) -> Any:
        """Run the verb. It may raise the library's errors."""

    def execute(self, context: Context) -> Any:
        from lakehouse_lib import commit_metadata

        with as_task_failure(), commit_metadata(task_metadata(context)):
            read_rendered(self, self.parameters)
            if self.registered_only:
                require_registered(self.table)
            hook = LakehouseHook(self.lakehouse_conn_id)
            result = self.run(hook)
            # The link has the version of the result. The latest version may be a later commit of another writer.
            if isinstance(result, Mapping):
                self.result_version = result_version(self.table, result)
                location = hook.uri(self.table)
                describe_events(context, self, self.table, location, result)
                self.lineage = Lineage.of_table(hook, self.table, (), result)
        return result

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002 - OpenLineage's signature
        """The table that the task has read or written, for OpenLineage."""
        return openlineage_of(self.lineage)
