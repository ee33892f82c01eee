"""The newest action of a domain wins, a removed domain is gone, and only a protocol with the feature allows writes."""

import pytest

from lakehouse_lib.errors import DeltaProtocolError
from lakehouse_lib.features.domain_metadata import check_domains, reconcile
from lakehouse_lib.protocol.actions import DomainMetadata, Protocol

OLD, NEW, OTHER = DomainMetadata("d", "1"), DomainMetadata("d", "2"), DomainMetadata("e", "3")
REMOVED = DomainMetadata("d", "", removed=True)


@pytest.mark.parametrize(
    ("actions", "domains"),
    [
        ([], [OLD, OTHER]),
        ([NEW], [OTHER, NEW]),
        ([REMOVED], [OTHER]),
        ([REMOVED, NEW], [OTHER, NEW]),
        ([NEW, REMOVED], [OTHER]),
    ],
)
def test_the_newest_action_of_a_domain_wins(actions, domains):
    before = {"d": OLD, "e": OTHER}
    assert list(reconcile(before, actions).values()) == domains
    assert before == {"d": OLD, "e": OTHER}


def test_domains_need_the_feature():
    check_domains({"d"}, Protocol(1, 7, None, frozenset({"domainMetadata"})), table="t", version=0)
    check_domains((), Protocol(1, 2), table="t", version=0)
    for protocol in (Protocol(1, 6), Protocol(1, 7, None, frozenset())):
        with pytest.raises(DeltaProtocolError, match="the domain 'd' cannot be written"):
            check_domains({"e", "d"}, protocol, table="t", version=0)
