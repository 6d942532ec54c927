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

    def __init__(self, waiting: dict[str, Entry]) -> None:
        # The values stand for the names only; every way to read one goes through ``__getitem__``.
        super().__init__(dict.fromkeys(waiting, _UNREAD))
        self._waiting = waiting

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
        keys: dict[str, Entry] = {}
        mnemonics: dict[str, Entry] = {}
        self._variants: dict[str, list[str]] = {}
        for entry in entries:
            if keys.setdefault(entry.key, entry) is not entry:
                raise ValueError(f"{key}: two instructions have the key {entry.key!r}")
            if mnemonics.setdefault(entry.mnemonic, entry) is not entry:
                raise ValueError(f"{key}: two instructions have the mnemonic {entry.mnemonic!r}")
            base = entry.key.rpartition(".")[0]
            if base in keys:
                self._variants.setdefault(base, []).append(entry.key)
        self.by_key = _Table(keys)
        self.by_mnemonic = _Table(mnemonics)

    def variants_of(self, key: str) -> list[Descriptor]:
        """The immediate forms of an instruction."""
        return [self.by_key[variant] for variant in self._variants.get(key, ())]
