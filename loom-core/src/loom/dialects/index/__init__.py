"""The ``index`` dialect: logical coordinates and byte distances."""
