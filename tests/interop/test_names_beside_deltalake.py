"""docs/reading.md lists all names of the ``deltalake`` package that are missing here; common names are alike."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.table import TableAlterer as TheirAlterer
from deltalake.table import TableOptimizer as TheirOptimizer

import lakehouse_lib
from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.table import TableAlterer, TableOptimizer

PAGE = (Path(__file__).parents[2] / "docs/reading.md").read_text()
NOT_HERE = PAGE.partition("| | not here | instead |")[2].partition("\n\n")[0]
#: A name that their module imports and so exposes. Submodules do not count, because other imports add them.
THEIR_IMPORTS = {"Optional"}
#: Names in their modules that are not part of their documentation, or that a module only imports.
THEIR_INTERNALS = {"DeltaField", "DeltaSchema", "PyMergeBuilder", "PyQueryBuilder", "RawDeltaTable"}
THEIR_INTERNALS |= {"deprecate_positional_commit_args", "encode_partition_value"}
#: What the page lists as missing, and what a module only imports, by module.
NOT_IN_MODULES = {"table": {"DeltaTableConfig"}, "transaction": {"Schema"}}

BOTH: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("write_deltalake", deltalake.write_deltalake, write_deltalake),
    ("DeltaTable", deltalake.DeltaTable, DeltaTable),
    ("CommitProperties", deltalake.CommitProperties, lakehouse_lib.CommitProperties),
    *(
        (name, getattr(their_class, name), getattr(our_class, name))
        for their_class, our_class in (
            (deltalake.DeltaTable, DeltaTable),
            (TheirOptimizer, TableOptimizer),
            (TheirAlterer, TableAlterer),
        )
        for name in sorted(vars(their_class))
        if not name.startswith("_") and callable(getattr(their_class, name)) and hasattr(our_class, name)
    ),
]


def public(home: object) -> set[str]:
    return {name for name, value in inspect.getmembers_static(home) if name[0] != "_" and not inspect.ismodule(value)}


def parameters(verb: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return (parameter for parameter in inspect.signature(verb).parameters.values() if parameter.kind not in kinds)


def named_in(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


def test_every_missing_name_is_on_the_page() -> None:
    missing = public(deltalake) - public(lakehouse_lib) - set(lakehouse_lib.__all__) - THEIR_IMPORTS
    missing |= public(deltalake.DeltaTable) - public(DeltaTable)
    assert missing - named_in(NOT_HERE) == set()


@pytest.mark.parametrize("module", ["exceptions", "fs", "query", "schema", "table", "transaction", "writer"])
def test_every_name_of_a_module_is_in_the_module_of_the_same_name(module: str) -> None:
    peer = import_module(f"deltalake.{module}")
    homes = (peer.__name__, "deltalake._internal")
    names = {name for name in public(peer) if getattr(getattr(peer, name), "__module__", "").startswith(homes)}
    library_module = import_module(f"lakehouse_lib.{module}")
    missing = {name for name in names - THEIR_INTERNALS if not hasattr(library_module, name)}
    assert missing == NOT_IN_MODULES.get(module, set())


def test_the_result_of_metadata_is_of_the_class_metadata(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    for package in (deltalake, lakehouse_lib):
        assert isinstance(package.DeltaTable(tmp_path).metadata(), package.Metadata)
        assert package.Metadata is import_module(f"{package.__name__}.table").Metadata


@pytest.mark.parametrize(("name", "their_verb", "our_verb"), BOTH, ids=[name for name, _, _ in BOTH])
def test_arguments_equal_those_of_deltalake_or_are_on_the_page(
    name: str, their_verb: Callable[..., Any], our_verb: Callable[..., Any]
) -> None:
    here = {parameter.name for parameter in parameters(our_verb)}
    missing = {parameter.name for parameter in parameters(their_verb)} - here
    assert missing - named_in(NOT_HERE) == set(), f"arguments of {name}"
    by_place = [
        [parameter.name for parameter in parameters(verb) if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
        for verb in (their_verb, our_verb)
    ]
    assert by_place[1] == by_place[0][: len(by_place[1])]


def test_the_verbs_of_alter_exist() -> None:
    assert public(TheirAlterer) - public(TableAlterer) == set()
    assert {feature.name for feature in lakehouse_lib.TableFeatures} == public(deltalake.TableFeatures)


def test_names_that_the_page_calls_missing_are_missing() -> None:
    cells = "\n".join(line.split("|")[2] for line in NOT_HERE.splitlines() if line.count("|") > 3)
    here = {parameter.name for _, _, verb in BOTH for parameter in parameters(verb)}
    here |= public(DeltaTable) | set(lakehouse_lib.__all__)
    assert named_in(cells) & here == set()


def test_the_listed_defaults_differ(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    assert DeltaTable(tmp_path).repair()["dry_run"] is True
    assert deltalake.DeltaTable(tmp_path).repair()["dry_run"] is False
    assert DeltaTable(tmp_path).cleanup_metadata() == []
    assert deltalake.DeltaTable(tmp_path).cleanup_metadata() is None
