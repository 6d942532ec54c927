"""Where parts of reserved storage lie."""

from __future__ import annotations

from loom.dialects.low import ops as low
from loom.ir.core import Value


def reserved_range(storage: Value, offset: int = 0) -> tuple[Value, int]:
    """The reservation that a storage value is a part of, and the position of a byte of the part in it."""
    maker = storage.defining_op
    while isinstance(maker, low.StorageView):
        offset += maker.offset
        storage = maker.storage
        maker = storage.defining_op
    return storage, offset
