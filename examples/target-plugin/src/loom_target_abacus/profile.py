"""The target profile: what ``--target=abacus:a1`` means."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from loom.plugins.records import TargetProfile

FAMILY: Final = "abacus"
CONTRACT: Final = "abacus.core"
FORMAT: Final = "abacus-text"
SCHEDULER: Final = "abacus.a1"

A1: Final = TargetProfile(
    family=FAMILY,
    selector="a1",
    contract=CONTRACT,
    facts=MappingProxyType(
        {
            "codegen_format": "text",
            "artifact_format": "abacus_text",
            "index_bitwidth": 32,
            "offset_bitwidth": 32,
            "contract_set_key": CONTRACT,
        }
    ),
    default_format=FORMAT,
    record=("abacus.target", "a1"),
    satisfies=frozenset({"a1"}),
    scheduler=SCHEDULER,
    summary="the first Abacus: eight registers of 32 bits",
)
