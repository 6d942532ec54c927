"""Keyword sets of operand schemas (language reference, part 1, section 16.5; part 2, sections 11.4 and 11.5)."""

from __future__ import annotations

from typing import Final

from loom.dialects.encoding.families import ALIASED_FORMATS
from loom.spec import kinds as k

NUMERIC_FORMAT: Final = k.enum(
    "numeric format",
    (
        "none", *ALIASED_FORMATS, "ternary", "sign_bit", "codebook_index", "quant_i8", "quant_i6", "quant_i4",
        "bfp16ebs8",
    ),
)  # fmt: skip
PAYLOAD_PACKING: Final = k.enum(
    "payload packing",
    (
        "dense_lanes", "little_endian_nibbles", "big_endian_nibbles", "bitfield_stream", "bitplane_stream",
        "multi_stream", "base_n_packed", "codebook_indices", "target_fragment", "interleaved_scale_payload",
        "separate_scale_payload",
    ),
)  # fmt: skip
SCALE_TOPOLOGY: Final = k.enum(
    "scale topology",
    (
        "none", "tensor_global", "row", "column", "channel", "group_1d", "block_1d", "block_2d",
        "subblock_in_superblock", "hierarchical", "per_token", "per_head", "per_page", "runtime_amax_derived",
    ),
)  # fmt: skip
AFFINE: Final = k.enum(
    "affine rule",
    (
        "none", "scale_only", "scale_plus_min", "scale_plus_zero_point", "scale_plus_bias",
        "super_scale_times_subscale", "sum_correction",
    ),
)  # fmt: skip
ROUNDING: Final = k.enum(
    "rounding",
    (
        "none", "nearest_even", "nearest_away", "toward_zero", "down", "up", "stochastic", "satfinite",
        "overflow_to_inf", "overflow_to_nan", "flush_subnormal", "preserve_subnormal", "relu_clamp", "finite_only",
        "finite_flush_subnormal",
    ),
)  # fmt: skip
CODEBOOK: Final = k.enum(
    "codebook",
    (
        "none", "static_builtin_table", "static_symbol_table", "global_data_table", "dynamic_table_operand",
        "per_superblock_table",
    ),
)  # fmt: skip
SPARSITY: Final = k.enum(
    "sparsity",
    (
        "none", "mask", "n_m_structured", "block_sparse", "bsr", "csr", "coo", "page_table", "moe_routing",
        "outlier_side_stream",
    ),
)  # fmt: skip
NORMALIZATION: Final = k.enum("normalization", ("none", "orthonormal"))

GROUPED_TOPOLOGIES: Final = ("group_1d", "block_1d", "block_2d", "subblock_in_superblock", "hierarchical")
