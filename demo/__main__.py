"""`python -m demo` runs the demo; `up` leaves its Airflow running, `down` stops it, `cluster` runs it on a cluster."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from demo import airflow_process
from demo.cluster.home import ClusterHome
from demo.cluster.story import ClusterStory, check_prerequisites
from demo.errors import DemoError
from demo.home import Home
from demo.pipeline import Pipeline
from demo.progress import Progress
from demo.story import Story, prepare
from demo.users import ROLES
from lakehouse_lib.errors import DeltaError

USAGE = "usage: python -m demo [up | down | cluster]"


def play(home: Home) -> int:
    with home.locked():
        state = airflow_process.running(home)
        if state is not None:
            raise DemoError(f"The demo's Airflow is up on {state.url}", hint="Stop it first: `make down`.")
        airflow_process.sweep(home)
        progress = Progress()
        story = Story(home, progress)
        held = story.run()
        if held:
            print(f"All checks hold, after {progress.elapsed:.0f} seconds. To look around in the same Airflow: make up")
            return 0
        print("The demo failed: some checks do not hold, see above. To look around in its Airflow: make up")
        return 1


def up(home: Home) -> int:
    with home.locked():
        state = airflow_process.running(home)
        if state is not None:
            print(f"Airflow is already up: {_where(home, state)}")
            return 0
        progress = Progress()
        if not home.registry.exists():
            prepare(home, progress)
        print("Starting Airflow: about 20 seconds.")
        state = airflow_process.start(home)
        Pipeline(airflow_process.api(home, state), home, progress).await_dags()
        if state.port != airflow_process.FIRST_PORT:
            print(f"Port {airflow_process.FIRST_PORT} is taken, so Airflow is on {state.port}.")
        print(f"Airflow is up: {_where(home, state)}")
        print("Trigger lakehouse_ingest, or look at the runs of the demo. `make down` stops it.")
        return 0


def down(home: Home) -> int:
    # Without the lock, because `down` must also stop the Airflow of a running demo.
    print("Airflow has stopped." if airflow_process.stop(home) else "Airflow is not up.")
    return 0


def cluster(_: Home) -> int:
    home = ClusterHome()
    check_prerequisites(home)
    with home.locked():
        airflow_process.sweep(home)
        progress = Progress()
        held = False
        try:
            held = ClusterStory(home, progress).run()
        finally:
            # A failed run keeps its logs; no run keeps secrets.
            home.discard() if held else home.discard_but_logs()
        if held:
            print(f"All checks hold, after {progress.elapsed:.0f} seconds. All services have stopped.")
            return 0
        print(
            f"The demo failed: some checks do not hold, see above. The services have stopped; their logs: {home.logs}"
        )
        return 1


def _where(home: Home, state: airflow_process.State) -> str:
    users = (f"user {user} password {airflow_process.password(home, user)}" for user in ROLES)
    return "\n  ".join([state.url, *users])


def main(arguments: list[str]) -> int:
    commands = {(): play, ("up",): up, ("down",): down, ("cluster",): cluster}
    command = commands.get(tuple(arguments))
    if command is None:
        print(USAGE, file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup, SIGHUP is ignored, and must stay ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)
    try:
        return command(Home())
    except (DemoError, DeltaError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; no process is left.", file=sys.stderr)
        return 130


def _leave(number: int, _frame: FrameType | None) -> None:
    # The exception runs the `finally` blocks, which stop Airflow.
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
