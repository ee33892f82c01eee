"""A job on a Spark Connect server, and the script that replaces it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lakehouse_airflow.jobs import submission as submission_module
from lakehouse_airflow.jobs.job_folder import JobFolder
from lakehouse_airflow.jobs.submission import JobSubmission
from tests.airflow.jobs.job_scripts import PRELUDE

TASK = "airflow:upkeep:manual__1:t:-1"

#: The script notes its process id, and ends when the file ``go`` exists.
JOB = """
folder = os.environ["FOLDER"]
open(os.path.join(folder, "started"), "w").write(str(os.getpid()))
while not os.path.exists(os.path.join(folder, "go")):
    time.sleep(0.02)
from spark_jobs.process.private_files import read_private
server = json.loads(read_private("private:spark-connect-file"))
sys.stdout = open(os.devnull, "w")  # as run_job, whose reader may have died
end({"lakehouse": "result", "server": server, "argv": sys.argv})
"""


def replace_job(tmp_path: Path) -> None:
    script = tmp_path / "compact.py"
    if not script.exists():
        script.write_text(f"{PRELUDE}\n{JOB}")
    submission_module.spark_jobs = SimpleNamespace(__path__=[str(tmp_path)])  # type: ignore[assignment]


def submission(tmp_path: Path, **options: Any) -> JobSubmission:
    folder = JobFolder(str(tmp_path / "jobs"), None, TASK)
    return JobSubmission("compact", ["--table", "t"], folder=folder, conn_id="connect", **options)
