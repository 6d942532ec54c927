"""The scalar`` dialect: arithmetic on integer and floating-point scalars."""
