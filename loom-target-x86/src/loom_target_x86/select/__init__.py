"""Instruction selection: from source operations to Low, one file per source dialect.

A rule is a function of the context and an operation, registered for the operation's name (`rules`). It asks the
context for operands, appends packets and binds results. Pure packets are shared and leave loops by themselves
(`emit`); what nobody uses is dropped at the end (`loom.low.unused`).
"""
