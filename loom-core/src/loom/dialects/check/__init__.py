"""The ``check`` dialect: executable correctness cases and benchmarks."""
