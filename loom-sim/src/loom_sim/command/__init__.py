"""The command ``loom-sim``: list, disassemble and run the kernels of a code object."""
