"""The ``cfg`` dialect: explicit control flow."""
