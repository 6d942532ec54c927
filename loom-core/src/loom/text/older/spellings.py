"""The older spellings and what they are called now (language reference, part 1, section 22; part 2, section 16).

A row is a pair of token patterns, see :mod:`loom.text.older.patterns`. What depends on more of a file than the tokens
in a row is in :mod:`loom.text.older.context`.
"""

from __future__ import annotations

from typing import Final

# -- operations ----------------------------------------------------------------------------------------------------

OPERATIONS: Final[tuple[tuple[str, str], ...]] = (
    ("func.template < =family >", "template.def < @$family >"),
    ("func.ukernel < =family >", "template.ukernel < @$family >"),
    ("func.apply < =family >", "template.apply < @$family >"),
    ("func.provider.decl < =family > $modifiers... @name", "template.decl $modifiers... @$family"),
    ("module.import $path [ $names... ]", ""),
    (
        "buffer.alloca %size { base_alignment = $alignment , memory_space = $space }",
        "buffer.alloca < $space > align ( $alignment ) %size",
    ),
    ("buffer.assume.memory_space %root { memory_space = $space }", "buffer.assume.memory_space < $space > %root"),
    (
        "kernel.barrier < $space > { ordering = $ordering , scope = $scope }",
        "kernel.barrier < $space > scope ( $scope ) ordering ( $ordering )",
    ),
    ("kernel.launch.serial", "command.serial"),
    ("kernel.launch.concurrent", "command.concurrent"),
    ("kernel.launch.yield", "command.yield"),
    (
        "vector.load.mask $access... : $view , $mask , $value -> $result",
        "vector.load.mask $access... : $view , $mask , $value",
    ),
)

# -- targets, calling conventions, machine bodies ------------------------------------------------------------------

TARGETS: Final[tuple[tuple[str, str], ...]] = (
    ("ireevm.target", "vm.target"),
    ("ireevm.core", "vm.core"),
    ('"ireevm.core"', '"vm.core"'),
    ("abi ( vm_module_function", "abi ( vm_function"),
    ("abi = vm_module_function", "abi = vm_function"),
    ("artifact_format = vm_bytecode", "artifact_format = vm_binary"),
    ("hal_buffer_resource_flags = $value ,", ""),
    (", hal_buffer_resource_flags = $value", ""),
    ("hal_buffer_resource_flags = $value", ""),
    ("asm < $contract > {", "asm {"),
)

# -- predicates ----------------------------------------------------------------------------------------------------

# Older name -> current name; the arguments are the same.
PREDICATES: Final[dict[str, str]] = {"mul": "multiple_of", "pow2": "power_of_two", "min": "ge", "max": "le"}

# -- encodings -----------------------------------------------------------------------------------------------------

FAMILIES: Final[tuple[tuple[str, str], ...]] = (
    ("#dense", "#encoding.layout.dense"),
    ("#strided < stride = $stride >", "#encoding.layout.strided < strides = [ $stride ] >"),
    ("#physical_storage", "#encoding.storage"),
    ("#matrix_operand", "#encoding.operand"),
    ("#q8_0 ⟦<…>⟧", "#ggml.q8_0"),
    ("#q6_k ⟦<…>⟧", "#ggml.q6_k"),
    ("#ggml_q4_0 ⟦<…>⟧", "#ggml.q4_0"),
    ("#ggml_q8_0 ⟦<…>⟧", "#ggml.q8_0"),
    ("#ggml_q6_k ⟦<…>⟧", "#ggml.q6_k"),
    (
        '#numeric_transform < $before... family = "hadamard" $after... >',
        "#transform.hadamard < normalization = none >",
    ),
    ("#ieee_fp8_e4m3", "#encoding.f8e4m3"),
    ("#ieee_fp8_e5m2", "#encoding.f8e5m2"),
    ("#fp8_e4m3", "#encoding.f8e4m3fn"),
    ("#fp8_e5m2", "#encoding.f8e5m2"),
    ("#fp8_e4m3fn", "#encoding.f8e4m3fn"),
    ("#fp8_e4m3fnuz", "#encoding.f8e4m3fnuz"),
    ("#fp8_e5m2fnuz", "#encoding.f8e5m2fnuz"),
)

# -- types ---------------------------------------------------------------------------------------------------------

# Regular expression of a whole type token -> its current spelling. Classes that end in `.id` still name a value type.
TYPES: Final[tuple[tuple[str, str], ...]] = (
    (r"group<\s*(?:workgroup|subgroup)\s*>", "group"),
    (r"(reg<\s*(?![\w$.-]*\.id\b)[\w$.-]+(?:\s+x[0-9]+)?)\s*:[^>]*>", r"\1>"),
)

# -- what is gone --------------------------------------------------------------------------------------------------

# Older name -> what to do instead, for the diagnostic of its unknown name.
REMOVED: Final[dict[str, str]] = {
    "#numeric_transform": "only the family \"hadamard\" is left, as '#transform.hadamard'",
    "#turboquant_kv": "this schema was removed",
    "#ggml_iq_grid": "this schema was removed; use a register table",
    "#hadamard_sign": "this transform was removed",
    "#sign_permute_hadamard": "this transform was removed",
    "#jl_dense": "this transform was removed",
    "llvmir.target": "the dialect 'llvmir' was removed",
}
