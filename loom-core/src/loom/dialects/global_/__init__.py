"""The ``global`` dialect: module-private state and constant data."""
