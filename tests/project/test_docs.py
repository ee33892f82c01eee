"""The docs compared with the code that they describe."""

import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
OPERATORS = (ROOT / "docs/operators.md").read_text()
JOBS = (ROOT / "docs/jobs.md").read_text()


def anchors(page: Path) -> set[str]:
    text = page.read_text()
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def test_every_operator_is_in_the_docs() -> None:
    sources = [*(ROOT / "plugins/lakehouse_airflow").rglob("*.py")]
    classes = {
        name
        for source in sources
        for name in re.findall(r"^class (Lakehouse\w+(?:Operator|Sensor|Hook))\b", source.read_text(), re.MULTILINE)
    } - {"LakehouseJobOperator", "LakehouseTableOperator", "LakehouseTableSensor"}
    assert len(classes) > 10
    assert [name for name in sorted(classes) if name not in OPERATORS] == []
    assert sorted(set(re.findall(r"\bLakehouse\w+(?:Operator|Sensor|Hook)\b", OPERATORS)) - classes) == []


def test_the_registry_in_the_docs_is_valid(tmp_path: Path) -> None:
    registry = importlib.import_module("lakehouse_lib.fleet.registry")
    page = (ROOT / "docs/getting-started.md").read_text()
    block = re.search(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    (tmp_path / "lakehouse.yaml").write_text(block[1])
    loaded = registry.read_registry(tmp_path / "lakehouse.yaml")
    assert loaded.loaded_tables() == ["orders"]


def test_the_docs_have_every_key_of_the_registry_with_its_default() -> None:
    registry = importlib.import_module("lakehouse_lib.fleet.registry")
    page = (ROOT / "docs/registry.md").read_text()
    defaults = {
        **{f"source.{name}": field.default for name, field in registry.Source.model_fields.items()},
        **{f"vacuum.{name}": field.default for name, field in registry.VacuumPolicy.model_fields.items()},
        **{f"maintenance.{name}": field.default for name, field in registry.Maintenance.model_fields.items()},
        **{field.alias or name: field.default for name, field in registry.Table.model_fields.items()},
    }
    keys_of_a_table = page.partition("| key of a table")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| (`.*?`(?:, `.*?`)*) \| .* \| (.*?) \|$", keys_of_a_table, re.MULTILINE))
    documented = {name: default for keys, default in rows.items() for name in re.findall(r"`(.*?)`", keys)}
    assert set(documented) == set(defaults) - {"source", "vacuum", "maintenance"}
    for name in ("source.files_per_batch", "source.settle_seconds"):
        assert documented[name] == json.dumps(defaults[name]), name
    for name in ("vacuum.retention_hours", "target_file_size"):
        assert defaults[name] is None
        assert documented[name].startswith("the table's own")
    settings = re.findall(r"^\| (`.*?`(?:, `.*?`)*) \|", page.partition("| key of `airflow`")[2], re.MULTILINE)
    of_dags = {name for keys in settings for name in re.findall(r"`(.*?)`", keys)}
    assert set(registry.DagSettings.model_fields) <= of_dags
    others = page.partition("## Keys beside `tables`")[2].partition("\n## ")[0]
    named = {
        name for row in re.findall(r"^\| (`.*?`) \|", others, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert named == set(registry.Registry.model_fields) - {"tables"}


def test_the_docs_name_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs/getting-started.md").read_text()
    rows = page.partition("| extra | adds |\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == set(extras)


def test_the_docs_name_every_variable_that_stands_for_an_option() -> None:
    read = importlib.import_module("lakehouse_lib.store.s3.options")._ENVIRONMENT
    page = (ROOT / "docs/stores.md").read_text()
    listed = re.search(r"These variables are read:\s+(.*?)\. ", page, re.DOTALL)
    assert listed is not None
    assert re.findall(r"`(\w+)`", listed[1]) == [name for names in read.values() for name in names]


def test_the_docs_name_every_option_of_a_store() -> None:
    options = importlib.import_module("lakehouse_lib.store.s3.options")._NAMES
    table = (ROOT / "docs/stores.md").read_text().partition("\n| option | |\n")[2].partition("\n\n")[0]
    assert {name.lower().removeprefix("aws_") for name in re.findall(r"`(\w+)`", table)} >= set(options)


def test_every_name_of_a_table_is_in_a_page() -> None:
    from lakehouse_lib import DeltaTable

    pages = "\n".join(page.read_text() for page in PAGES)
    names = {name for name in dir(DeltaTable) if not name.startswith("_")}
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b[(`]|\.{name}\b", pages)] == []
    assert [name for name in sorted(names) if not getattr(DeltaTable, name).__doc__] == []


JOB_NAMES = sorted(file.stem for file in (ROOT / "spark_jobs").glob("*.py") if "\ndef arguments(" in file.read_text())


@pytest.mark.parametrize("job", JOB_NAMES)
def test_every_option_of_a_job_is_in_its_section(job: str) -> None:
    section = re.search(rf"^## {job}\n(.*?)(?=^## |\Z)", JOBS, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/jobs.md has no section {job}"
    parser = importlib.import_module(f"spark_jobs.{job}").arguments()
    options = {option for action in parser._actions for option in action.option_strings} - {"-h", "--help"}
    assert set(re.findall(r"`(--[a-z-]+)`", section[1])) == options


def test_every_job_in_the_docs_exists() -> None:
    assert sorted(re.findall(r"^## (\w+)$", JOBS, re.MULTILINE)) == JOB_NAMES


def test_the_suite_in_the_docs_is_valid() -> None:
    from lakehouse_lib.ingestion.quality import read_rules

    page = (ROOT / "docs/ingest.md").read_text()
    block = re.search(r"^## A suite$.*?^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    assert [rule.id for rule in read_rules(json.loads(block[1]), ["price"])] == [
        "price_not_negative",
        "orders_not_empty",
    ]
