"""The ``kernel`` dialect: dispatchable entries and their execution environment."""
