"""The acts of the demo, in their order."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import deltalake
import duckdb

from demo import airflow_process, checks, data, erasures, faults, lakehouse, person, summary
from demo.airflow_process import Program
from demo.checks import Check
from demo.faults import Faults
from demo.home import Home
from demo.measure import TableState, measure
from demo.person import Person
from demo.pipeline import REPORT, Pipeline
from demo.progress import Progress
from demo.rest import AirflowApi, Question, RefusedError
from demo.users import OFFICER, REQUESTER
from lakehouse_lib.errors import DeltaError

# A second load without new files must trigger no DAG; the time to wait for a run that must not start.
QUIET_SECONDS = 6.0
# The most differences to print for a check.
MOST_PROBLEMS = 10


def prepare(home: Home, progress: Progress) -> tuple[Faults, Person]:
    """Make the raw data, the landing files with faults, and the registry, in an empty home."""
    home.lay_out()
    data.generate(home.raw)
    landed = data.cut(home.raw, home.landing)
    for table, files in landed.items():
        progress.line("done", f"TPC-H scale {data.SCALE:g}: {table} in {len(files)} landing files")
    injected = faults.inject(home.landing)
    injected.save(home.faults)
    spoiled = injected.files[0]
    renamed = f"{spoiled.column} is called {spoiled.instead} there"
    progress.line("done", f"spoiled {len(injected.rows)} rows, and the header of {spoiled.file}: {renamed}")
    lakehouse.write_registry(home)
    return injected, person.choose(home.raw, injected)


@dataclass
class Story:
    """One run of the demo."""

    home: Home
    progress: Progress
    record: summary.Record = field(default_factory=summary.Record)
    checks: list[Check] = field(default_factory=list)
    program_of: ClassVar[Callable[[Home], Program]] = staticmethod(airflow_process.standalone)
    #: Multiplies the time that a run may take.
    patience: ClassVar[float] = 1.0

    def run(self) -> bool:
        """Run all acts and print the summary; True if every check holds.

        Raises:
            DemoError: the demo cannot go on.
        """
        self.progress.act("1. Setting up: data, faults, the demo's own Airflow")
        injected, who = prepare(self.home, self.progress)
        began = time.monotonic()
        with airflow_process.session(self.home, self.program_of) as state:
            self._deliver()
            pipeline = Pipeline(airflow_process.api(self.home, state), self.home, self.progress, self.patience)
            pipeline.await_dags()
            self.progress.line("done", f"Airflow answers on {state.url}", time.monotonic() - began)
            self._load(pipeline, injected)
            self._maintain(pipeline)
            requester, officer = (airflow_process.api(self.home, state, user) for user in (REQUESTER, OFFICER))
            self._erase(pipeline, who, requester, officer)
            self._load_nothing(pipeline)
            self._inspect()
            self.progress.act("6. Stopping Airflow")
        self.progress.line("done", "Airflow has stopped; no process is left")
        self._judge(injected, who)
        self.progress.end()
        self.record.steps = self.progress.steps
        self.record.checks = self.checks
        summary.show(self.record, self.progress.console)
        return all(check.holds for check in self.checks)

    def _deliver(self) -> None:
        """Bring the landing files to the place that the registry names; here they are in it."""

    def _inspect(self) -> None:
        """Check what can be seen only while the platform runs."""

    def _load(self, pipeline: Pipeline, injected: Faults) -> None:
        self.progress.act("2. Loading the landed files: schema gate, quality gate, exactly once")
        run = pipeline.run("lakehouse_ingest")
        pipeline.follow(run, may_fail=self._refusal(injected))
        self.record.releases = pipeline.await_releases(0)
        self.record.loaded = self._measure()
        self.record.quarantined = self._quarantined()
        self._check(checks.quarantine_is_exact, self.home, injected)
        self._check(checks.readers_agree, self.home, older=checks.OLDER_VERSIONS)

    def _refusal(self, injected: Faults) -> Callable[[str], str | None]:
        def shown(log: str) -> str | None:
            for spoiled in injected.files:
                match = re.search(rf"SourceRefusedError: (.*{re.escape(spoiled.file)}.*)", log)
                if match:
                    self.record.refused = {**self.record.refused, spoiled.file: match[1]}
                    return f"rejected {spoiled.file}, as expected; the table has the other files"
            return None

        return shown

    def _maintain(self, pipeline: Pipeline) -> None:
        self.progress.act("3. Maintaining: a plan of what pays, then Z-order, compaction, vacuum")
        run = pipeline.run("lakehouse_maintenance")
        pipeline.follow(run)
        self.record.maintenance = pipeline.api.xcom(run.dag_id, run.run_id, "summary")
        self.record.maintained = self._measure()
        for table, steps in self.record.maintenance.items():
            for verb, step in steps.items():
                self.progress.line("note", f"{table}: {verb}, because {step['reason']}")
        self._check(checks.skipping_is_real, self.home)
        self._check(checks.vacuum_was_exact, self.home)
        self._check(checks.checkpoints_suffice, self.home)

    def _erase(self, pipeline: Pipeline, who: Person, requester: AirflowApi, officer: AirflowApi) -> None:
        self.progress.act(f"4. Erasing customer {who.customer}: {REQUESTER} requests, {OFFICER} approves")
        before = person.rows_on_disk(self.home.tables, who)

        def approve(question: Question) -> None:
            self.record.question = question.subject
            self.progress.line("note", f"the approval step asks: {question.subject}")
            for line in question.body.splitlines():
                if line.strip():
                    self.progress.line("note", f"  {line.strip()}")
            option = next(option for option in question.options if option.lower().startswith("approve"))
            try:
                requester.answer(question, option)
            except RefusedError:
                self.record.own_answer_refused = True
                self.progress.line("refused", f"{REQUESTER} answered “{option}”, and Airflow refused it, as expected")
            name = officer.answer(question, option)
            self.progress.line("done", f"{name} answered “{option}” through the REST API")

        run = pipeline.run("lakehouse_erasure_customer", {"customer_id": who.customer}, user=requester)
        pipeline.follow(run, answer=approve)
        request = str(pipeline.api.xcom(run.dag_id, run.run_id, "locate")["request"])
        self.record.erasure = erasures.read_record(self.home, request)
        self._check(checks.record_stands, self.home, request, own_answer_refused=self.record.own_answer_refused)
        self.record.releases = pipeline.await_releases(len(self.record.releases))
        after = person.rows_on_disk(self.home.tables, who)
        self.record.customer = who.customer
        self.record.person_rows = {table: (before[table][0], after[table][0]) for table in before}
        self.record.unattributed = person.unattributed(self.home.tables, who)
        self._check(checks.erasure_is_complete, self.record.person_rows)

    def _load_nothing(self, pipeline: Pipeline) -> None:
        self.progress.act("5. Loading again, without new files")
        versions = {table: state.version for table, state in self._measure().items()}
        runs = len(pipeline.api.runs(REPORT))
        pipeline.follow(pipeline.run("lakehouse_ingest"))  # the refused file has failed the first run only
        time.sleep(QUIET_SECONDS)
        self.record.final = self._measure()
        after = {table: state.version for table, state in self.record.final.items()}
        self._check(checks.nothing_changed, versions, after, runs, len(pipeline.api.runs(REPORT)))
        self.record.releases = pipeline.releases()
        self._check(checks.one_run_a_range, self.record.releases)

    def _judge(self, injected: Faults, who: Person) -> None:
        self.progress.act("7. Checking all results against the raw files and other readers")
        self._check(checks.queries_agree, self.home, injected, who)
        self._check(checks.readers_agree, self.home)

    def _measure(self) -> dict[str, TableState]:
        return {
            table: measure(self.home.tables / table, list(lakehouse.SELECTIVE.get(table, {}).values()))
            for table in lakehouse.COLUMNS
        }

    def _quarantined(self) -> list[tuple[str, str, int]]:
        rejected: Counter[tuple[str, str]] = Counter()
        for table in lakehouse.COLUMNS:
            path = self.home.tables / lakehouse.quarantine_of(table)
            if not path.exists():
                continue
            columns = ["_column", "_reason", "_rule"]
            for row in deltalake.DeltaTable(str(path)).to_pyarrow_table(columns=columns).to_pylist():
                if row["_rule"] is not None:
                    reason = f"breaks the rule {row['_rule']}"
                else:
                    reason = f"{row['_column']}: {row['_reason']}" if row["_column"] else row["_reason"]
                rejected[table, reason] += 1
        return [(table, reason, rows) for (table, reason), rows in sorted(rejected.items(), key=lambda item: -item[1])]

    def _check(self, check: Callable[..., Check], *arguments: object, **options: object) -> None:
        began = time.monotonic()
        try:
            result = check(*arguments, **options)
        except (DeltaError, deltalake.exceptions.DeltaError, duckdb.Error, OSError) as error:
            # An error counts as a failed check, and the other checks still run.
            result = Check(check.__name__.replace("_", " "), (f"{type(error).__name__}: {error}",))
        self.checks.append(result)
        self.progress.line("done" if result.holds else "failed", result.name, time.monotonic() - began)
        for problem in result.problems[:MOST_PROBLEMS]:
            self.progress.line("failed", f"  {problem}")
        if len(result.problems) > MOST_PROBLEMS:
            self.progress.line("failed", f"  and {len(result.problems) - MOST_PROBLEMS} more")
