"""The ``encoding`` dialect: layouts, schemas, storage formats and transforms as values."""
