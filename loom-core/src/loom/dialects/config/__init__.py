"""The ``config`` dialect: compile-time choices bound elsewhere."""
