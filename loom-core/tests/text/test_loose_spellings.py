"""Spellings of dialects with more than one: the canonical one prints."""

from __future__ import annotations

import pytest

from loom.text.parser import parse_module
from loom.text.printer import print_module


@pytest.mark.parametrize(
    ("loose", "canonical"),
    [
        (
            "encoding.matches < affine=none ,element_format =i4 > %e: encoding<schema>",
            "encoding.matches<element_format = i4, affine = none> %e : encoding<schema>",
        ),
        (
            "encoding.isa<#encoding.i4 <payload_packing=dense_lanes , payload_elements = 4>> %e : encoding<schema>",
            "encoding.isa<#encoding.i4<payload_elements=4, payload_packing=dense_lanes>> %e : encoding<schema>",
        ),
    ],
)
def test_loose_spelling_becomes_canonical(loose: str, canonical: str) -> None:
    body = "func.def @f(%e: encoding<schema>) {{\n  %r = {}\n  func.return\n}}\n"
    assert print_module(parse_module(body.format(loose))) == body.format(canonical)
