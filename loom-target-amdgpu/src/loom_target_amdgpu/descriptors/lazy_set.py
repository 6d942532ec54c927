"""A descriptor set whose instructions are read from their tables when they are first asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from loom.low.descriptors import Descriptor, DescriptorSet, RegisterClass
from loom_target_amdgpu.descriptors.notation import Entry


class _Table(dict[str, Descriptor]):
    """Name -> descriptor; names are all there from the start, descriptors are made on first access."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, Entry] = {}

    def announce(self, name: str, entry: Entry) -> bool:
        """Add a name; False if it is taken."""
        if name in self._waiting:
            return False
        self._waiting[name] = entry
        # The value stands for the name only; every way to read it goes through ``__getitem__``.
        super().__setitem__(name, _UNREAD)
        return True

    def __getitem__(self, name: str) -> Descriptor:
        found = super().__getitem__(name)
        if found is _UNREAD:
            found = _read(self._waiting[name])
            super().__setitem__(name, found)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]

    def values(self) -> Any:
        self._read_all()
        return super().values()

    def items(self) -> Any:
        self._read_all()
        return super().items()

    def _read_all(self) -> None:
        for name in self:
            self[name]


_UNREAD = Descriptor("", "")


@cache
def _read(entry: Entry) -> Descriptor:
    return entry.make()


class TableSet(DescriptorSet):
    """A contract whose instructions come from the tables of this package.

    Raises:
        ValueError: two instructions share a key or a mnemonic.
    """

    __slots__ = ("_variants",)

    def __init__(self, key: str, registers: Mapping[str, RegisterClass], entries: Iterable[Entry]) -> None:
        self.key = key
        self.registers = MappingProxyType(dict(registers))
        by_key, by_mnemonic = _Table(), _Table()
        self._variants: dict[str, list[str]] = {}
        for entry in entries:
            if not by_key.announce(entry.key, entry):
                raise ValueError(f"{key}: two instructions have the key {entry.key!r}")
            if not by_mnemonic.announce(entry.mnemonic, entry):
                raise ValueError(f"{key}: two instructions have the mnemonic {entry.mnemonic!r}")
            base, _, suffix = entry.key.rpartition(".")
            if suffix and base in by_key:
                self._variants.setdefault(base, []).append(entry.key)
        self.by_key = by_key
        self.by_mnemonic = by_mnemonic

    def variants_of(self, key: str) -> list[Descriptor]:
        """The immediate forms of an instruction."""
        return [self.by_key[variant] for variant in self._variants.get(key, ())]
