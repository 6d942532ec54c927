"""The ``buffer`` dialect: storage roots."""
