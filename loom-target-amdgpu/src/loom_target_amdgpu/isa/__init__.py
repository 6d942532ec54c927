"""AMD GPU instruction encodings: verified tables, encoder, decoder and disassembler.

``tables`` holds one row per instruction and encoding form for the families gfx942 (CDNA3), gfx11 (RDNA3) and
gfx12
(RDNA4); ``encode`` and ``decode`` work from those rows alone.
"""
