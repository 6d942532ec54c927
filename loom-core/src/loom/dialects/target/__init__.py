"""The ``target`` dialect: target records and queries."""
