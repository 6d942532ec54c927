"""Instruction selection: from source operations to Low, one file per source dialect."""
