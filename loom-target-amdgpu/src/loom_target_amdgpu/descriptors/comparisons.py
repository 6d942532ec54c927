"""Vector comparisons into lane masks (language reference, part 3, section 14.2).

Keys keep the IR-style predicate, mnemonics follow the vendor.
"""

# ruff: noqa: E501 - one instruction family per line, however long

from __future__ import annotations

from typing import Final

SIGNED: Final = {"eq": "eq", "ne": "ne", "slt": "lt", "sle": "le", "sgt": "gt", "sge": "ge"}
UNSIGNED: Final = {"ult": "lt", "ule": "le", "ugt": "gt", "uge": "ge"}
FLOAT: Final = {
    "oeq": "eq",
    "ogt": "gt",
    "oge": "ge",
    "olt": "lt",
    "ole": "le",
    "one": "lg",
    "ord": "o",
    "ueq": "nlg",
    "ugt": "nle",
    "uge": "nlt",
    "ult": "nge",
    "ule": "ngt",
    "une": "neq",
    "uno": "u",
}
_INLINE: Final = "src0_inline(lhs=lhs) src1_inline(rhs=rhs)"
_LITERAL: Final = "src0_lit(lhs=lhs)[AaB] src1_lit(rhs=rhs)[AaB]"


def _lines() -> list[str]:
    lines = []
    for table, word in ((SIGNED, "i32"), (UNSIGNED, "u32"), (FLOAT, "f32")):
        mode = "<mode" if word == "f32" else ""
        for key, vendor in table.items():
            name = f"v_cmp_{vendor}_{word}=v_cmp_{key}_{word}"
            lines.append(f"* | {name} | mask:s2 | lhs:sv rhs:sv | | {mode} | {_INLINE} {_LITERAL}")
    # Not in the reference: the compiler's own.
    for table, word, units, mode in (
        (SIGNED, "i64", "2", ""),
        (UNSIGNED, "u64", "2", ""),
        (FLOAT, "f64", "2", "<mode"),
        (FLOAT, "f16", "", "<mode"),
    ):
        for key, vendor in table.items():
            name = f"v_cmp_{vendor}_{word}=v_cmp_{key}_{word}"
            inline = "src1_inline(rhs=rhs)" if word in ("i64", "u64") else ""
            lines.append(f"* | {name} | mask:s2 | lhs:sv{units} rhs:sv{units} | | {mode} | {inline}")
    lines.append(
        "* | v_cmp_class_f32 | mask:s2 | value:sv classes:sv | | <mode | src1_inline(classes=classes) src1_lit(classes=classes)[AaB]"
    )
    lines.append("* | v_cmp_class_f64 | mask:s2 | value:sv2 classes:sv | | <mode |")
    return lines


COMPARISONS: Final = "\n".join(_lines())
