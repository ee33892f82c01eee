"""The feature v2Checkpoint: checkpoints by the V2 spec, with sidecars (PROTOCOL.md, V2 Checkpoint Table Feature)."""

from __future__ import annotations

from lakehouse_lib.features.feature import Feature, HasProperty
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import CHECKPOINT_POLICY
from lakehouse_lib.schema import Schema

_POLICY = HasProperty(CHECKPOINT_POLICY, "v2")

FEATURE = Feature("v2Checkpoint", True, True, True, _POLICY, f"{CHECKPOINT_POLICY.key} selects the kind of checkpoint")


def has_policy_v2(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether writers create checkpoints by the V2 spec: the protocol has the feature and the policy is v2."""
    return FEATURE.is_supported(protocol) and _POLICY(metadata.configuration, Schema([]))
