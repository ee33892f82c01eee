"""The operator that starts an erasure: find a person's rows, and put the plan into the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import mask_secret
from airflow.sdk import BaseOperator, Param, timezone

from lakehouse_airflow.approval import Pointer, Run
from lakehouse_airflow.connections.ledger import open_ledger
from lakehouse_airflow.erasure import plan as erasure_plan
from lakehouse_airflow.errors import InvalidParameterError, as_task_failure, rewrite_messages
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.asset_events import VERSIONS_KEY
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.fleet.registry import Registry, Subject

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.ledger import Ledger

_LARGEST_LONG = 2**63 - 1
#: The DAG's param to erase unattributed records that mention the person, too.
ERASE_MENTIONS = "erase_mentions"


def id_param(subject: str) -> str:
    """The name of the DAG's param for the id of the person to erase."""
    return f"{subject}_id"


def subject_param(subject: str) -> Param:
    """The DAG's param for the person's id, which Airflow checks: an integer from 1 on, or a non-empty text.

    Raises:
        RegistryError: the registry has no such subject.
    """
    title = f"Id of the {subject} to erase"
    if load_registry().subject(subject).id_type == "long":
        return Param(type="integer", minimum=1, maximum=_LARGEST_LONG, title=title)
    return Param(type="string", minLength=1, title=title)


class LakehouseLocateSubjectOperator(BaseOperator):
    """Finds a person's rows in all of the subject's tables and their quarantines.

    The task reads the params ``SUBJECT_id`` and ``erase_mentions`` when it runs, so the id is in no rendered field.
    Each try puts the keys and the plan of a new request into the ledger, and pushes the tables' versions as XCom for
    LakehousePublishOperator.

    Args:
        subject: a subject of the registry.
        lakehouse_conn_id: as the argument of ``LakehouseHook``.

    Returns:
        ``{"request", "digest", "subject", "person"}``: the request id, the digest of its plan, and a keyed hash of the
        person's id, which is the same in every request for that person.

    Raises:
        AirflowFailException: no user has triggered the run, or the id is not valid. The message does not contain the
            id.
    """

    template_fields: Sequence[str] = ()
    ui_color = "#fce8e6"

    def __init__(self, *, subject: str, lakehouse_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.subject = subject
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> dict[str, str]:
        from lakehouse_lib.privacy.partition_values import without_partition_values

        with rewrite_messages(without_partition_values), as_task_failure():
            from lakehouse_lib.ledger import digest, new_request
            from lakehouse_lib.privacy.purge import prove

            run = Run.of(context)
            registry = load_registry()
            configured = registry.subject(self.subject)
            identifier = _identifier(context, self.subject, configured)
            mask_secret(str(identifier))
            erase_mentions = context["params"].get(ERASE_MENTIONS, False)
            if not isinstance(erase_mentions, bool):
                raise InvalidParameterError(
                    f"the param {ERASE_MENTIONS} is of type {type(erase_mentions).__name__}; expected true or false"
                )
            ledger = open_ledger(registry)
            self._delete_leftover_keys(ledger, registry)
            hook = LakehouseHook(self.lakehouse_conn_id)
            context["ti"].xcom_push(VERSIONS_KEY, {table: hook.version(table) for table in configured.tables()})
            places_by_table = erasure_plan.find(hook, configured, identifier, erase_mentions=erase_mentions)
            places = [
                place.with_disk(prove(place.uri, place.keys.sql(), storage_options=hook.storage_options(table)))
                for table, place in places_by_table.items()
            ]
            request = new_request()
            keys = erasure_plan.keys_document(request, identifier, places)
            person = ledger.keyed_hash(self.subject, identifier)
            plan = {
                "format": 1,
                "kind": erasure_plan.KIND,
                "request": request,
                **run.to_dict(),
                "subject": self.subject,
                "person": person,
                "found_at": timezone.utcnow().isoformat(),
                "erase_mentions": erase_mentions,
                "keys": ledger.keyed_digest(keys),
                "tables": [place.entry() for place in places],
            }
            # The plan is put first. If this try is interrupted, a later run sees by the plan when the request is over,
            # and deletes the keys.
            ledger.put(request, "plan", plan)
            ledger.put(request, "keys", keys)
        self.log.info("request %s: %d tables", request, len(places))
        return {**Pointer(request, digest(plan)).to_dict(), "subject": self.subject, "person": person}

    def _delete_leftover_keys(self, ledger: Ledger, registry: Registry) -> None:
        from lakehouse_lib.errors import DeltaError

        now = timezone.utcnow()
        for request in ledger.requests("keys"):
            try:
                if erasure_plan.is_over(ledger, request, registry, now):
                    erasure_plan.delete_identifiers(ledger, request)
                    self.log.info("request %s is over, and its keys are deleted", request)
            except DeltaError as error:  # a document of another request, which this request does not need
                self.log.warning("the keys of request %s are left in the ledger: %s", request, error)


def _identifier(context: Context, subject: str, configured: Subject) -> int | str:
    from lakehouse_lib.errors import InvalidArgumentError
    from lakehouse_lib.privacy.subject import subject_from_config

    name = id_param(subject)
    kind = subject_from_config(configured.model_dump(include={"id_type", "rows"}, exclude_none=True))
    try:
        identifier = kind.value(context["params"].get(name))
    except InvalidArgumentError:  # its message contains the value
        identifier = 0
    if isinstance(identifier, int) and identifier < 1:
        expected = "a whole number from 1 on" if configured.id_type == "long" else "a text that is not empty"
        raise InvalidParameterError(f"the param {name} is not a valid id of a {subject}; expected {expected}")
    return identifier
