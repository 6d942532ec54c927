"""The ``vm`` dialect: records of targets for bytecode for a virtual machine."""
