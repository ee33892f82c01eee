"""A real Airflow over a small lakehouse, and Chromium without a window."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from demo import airflow_process
from demo.home import Home
from demo.rest import AirflowApi
from tests.browser.lakehouse import write_lakehouse
from tests.browser.visitor import Visitor

#: The folder for the pictures of the docs; without it they are written into the scratch folder of the run.
PICTURES = os.environ.get("LAKEHOUSE_PICTURES")


@pytest.fixture(scope="session")
def home() -> Iterator[Home]:
    with TemporaryDirectory(prefix="lakehouse-") as folder:  # a short path, because pictures show it
        home = Home(Path(folder))
        write_lakehouse(home)
        yield home


@pytest.fixture(scope="session")
def airflow(home: Home) -> Iterator[AirflowApi]:
    """A session of the user ``admin`` with an Airflow that runs the DAGs of the registry."""
    standalone = partial(airflow_process.standalone, first_port=20_000 + os.getpid() % 10_000)
    with airflow_process.session(home, standalone) as state:
        admin = airflow_process.api(home, state)
        # The pages verify documents of the ledger with its key, which the demo's API server does not have.
        key = json.loads((home.airflow / "connections.json").read_text())["lakehouse_ledger"]
        admin._send("POST", "/api/v2/connections", {"connection_id": "lakehouse_ledger", **key}, token=admin._bearer())
        yield admin


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    arguments = ("--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            args=[*arguments, "--disable-sync", "--no-first-run", "--no-proxy-server"],
            chromium_sandbox=os.getuid() != 0,  # Chromium's sandbox does not start as root
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(PICTURES) if PICTURES else tmp_path_factory.mktemp("pictures")


@pytest.fixture
def visit(airflow: AirflowApi, home: Home, chromium: Any, pictures: Path) -> Iterator[Any]:
    """Makes visitors: ``visit(user)`` is a browser in which this user has not signed in yet."""
    visitors: list[Visitor] = []

    def arrive(user: str, scheme: str = "light") -> Visitor:
        context = chromium.new_context(color_scheme=scheme, viewport={"width": 1360, "height": 850})
        visitors.append(Visitor(context, airflow.url, user, airflow_process.password(home, user), pictures))
        return visitors[-1]

    yield arrive
    for visitor in visitors:
        visitor.leave()
