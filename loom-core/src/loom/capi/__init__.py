"""The C interface: the header ``loomc.h``, its implementation, and how to build the library.

``python -m loom.capi build DIRECTORY`` compiles ``libloomc.so`` with the C compiler of the machine and puts the header
beside it; ``python -m loom.capi flags DIRECTORY`` prints the options for programs that use them.
"""
