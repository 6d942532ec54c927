"""AMDGPU code objects: kernel descriptors, metadata, and the ELF container, written and read.

Source: LLVM "User Guide for AMDGPU Backend", sections Code Object, Kernel Descriptor and Code Object V5
    Metadata.
"""
