"""From specialized source kernels to SPIR-V: one file of rules per source dialect, tables keyed by op name.

`lowering` walks a kernel and applies the rules; `context` is what a rule works with; `values` says how a source
value is represented.
"""
