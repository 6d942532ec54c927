"""The ``command`` dialect: reusable submissions."""
