"""The ``metadata`` dialect: module annotations."""
