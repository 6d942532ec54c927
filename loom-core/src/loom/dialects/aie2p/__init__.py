"""The ``aie2p`` dialect: records of targets for AIE2P processors: one core, or an array of them."""
