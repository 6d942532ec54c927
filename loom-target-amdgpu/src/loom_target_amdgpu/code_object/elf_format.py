"""ELF constants and record layouts shared by the writer and the reader (System V gABI, and LLVM's AMDGPU
guide).
"""

from __future__ import annotations

import struct

ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
DYNAMIC = struct.Struct("<qQ")
RELA = struct.Struct("<QQq")
NOTE = struct.Struct("<III")

MAGIC = b"\x7fELF"
CLASS64, LITTLE_ENDIAN, EV_CURRENT = 2, 1, 1
OSABI_AMDGPU_HSA = 64
ABI_VERSION_V4, ABI_VERSION_V5, ABI_VERSION_V6 = 2, 3, 4
ET_REL, ET_DYN = 1, 3
EM_AMDGPU = 224

PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_PHDR, PT_GNU_STACK = 1, 2, 4, 6, 0x6474E551
PF_X, PF_W, PF_R = 1, 2, 4

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_HASH, SHT_DYNAMIC, SHT_NOTE, SHT_DYNSYM = 1, 2, 3, 5, 6, 7, 11
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_COMPRESSED = 1, 2, 4, 0x800

DT_NULL, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = 0, 4, 5, 6, 7, 8, 9
DT_STRSZ, DT_SYMENT, DT_GNU_HASH = 10, 11, 0x6FFFFEF5

STB_LOCAL, STB_GLOBAL = 0, 1
STT_OBJECT, STT_FUNC = 1, 2
STV_PROTECTED = 3

NT_AMDGPU_METADATA = 32
NOTE_NAME = b"AMDGPU\0"
PAGE = 0x1000


def align_up(value: int, alignment: int) -> int:
    """``value`` rounded up to a multiple of ``alignment``."""
    return (value + alignment - 1) // alignment * alignment


def system_v_hash(name: bytes) -> int:
    """The gABI's symbol hash."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value
