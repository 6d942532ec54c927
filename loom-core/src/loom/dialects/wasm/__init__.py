"""The ``wasm`` dialect: records of targets for WebAssembly modules."""
