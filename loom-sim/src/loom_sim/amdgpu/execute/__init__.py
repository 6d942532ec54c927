"""What instructions do: one module per family of instructions, vectorized over waves and lanes.

Arithmetic modules fill `operation.VECTOR` and `operation.SCALAR`: an `Operation` by mnemonic, a pure function of typed
arrays. `load_all` imports them. Modules about memory, lanes and control translate their instructions themselves.
"""
