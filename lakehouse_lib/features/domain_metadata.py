"""The feature domainMetadata: named configurations of features and applications (PROTOCOL.md, Domain Metadata)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from lakehouse_lib.errors import DeltaProtocolError
from lakehouse_lib.features.feature import Feature, is_never_enabled
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.actions import DomainMetadata, Protocol

FEATURE = Feature("domainMetadata", False, True, True, is_never_enabled, "domains of other engines are kept unchanged")


def check_domains(names: Collection[str], protocol: Protocol, *, table: str, version: int) -> None:
    """Refuse a commit that writes domains to a table whose protocol does not have the feature.

    Raises:
        DeltaProtocolError: the commit writes a domain, and the protocol does not have the feature.
    """
    if names and not FEATURE.is_supported(protocol):
        raise DeltaProtocolError(
            f"the domain {excerpt(min(names))} cannot be written: the protocol (writer version "
            f"{protocol.min_writer_version}) has no domainMetadata",
            table=table,
            version=version,
            hint="Give the table writer version 7 with the feature domainMetadata first",
        )


def reconcile(domains: Mapping[str, DomainMetadata], actions: Iterable[DomainMetadata]) -> dict[str, DomainMetadata]:
    """The domains of a table after later actions, by name.

    The newest action of a domain replaces the others. Removed domains are left out.

    Args:
        domains: the domains before the actions.
        actions: the later actions, ascending by version.
    """
    live = dict(domains)
    for action in actions:
        live.pop(action.domain, None)
        if not action.removed:
            live[action.domain] = action
    return live
