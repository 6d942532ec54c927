"""Which code the simulator runs: legacy encodings of integer and SSE instructions, nothing else.

Unicorn 2.1 refuses most AVX code but runs some of it as the legacy instruction of the same name, with wrong
results and no sign of it. So the code is decoded completely before it runs, and anything with a VEX, EVEX,
XOP or 3DNow! encoding is an error, as are instructions that leave the program (system calls, for example).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom_sim.x86.faults import UnsupportedInstruction

if TYPE_CHECKING:
    from loom_target_x86.image import Image

#: Features beyond the baseline that Unicorn 2.1's processor model executes correctly in legacy encodings.
SUPPORTED_FEATURES = frozenset({"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "abm", "movbe", "cx16", "adx"})


def check_code(image: Image) -> None:
    """Decode all code of an image. Raises `UnsupportedInstruction` naming the first unsuitable one."""
    import iced_x86

    from loom_target_x86.inspect import DecodingError, instructions, required_features, symbol_at

    flow, mnemonic = iced_x86.FlowControl, iced_x86.Mnemonic
    leaving_flow = {flow.INTERRUPT, flow.XBEGIN_XABORT_XEND}
    leaving = {mnemonic.SYSCALL, mnemonic.SYSENTER, mnemonic.SYSRET, mnemonic.SYSEXIT}
    try:
        for located in instructions(image):
            instruction = located.instruction
            where = f"`{located.text}` at {symbol_at(image, located.offset)} (offset {located.offset:#x})"
            if instruction.encoding != iced_x86.EncodingKind.LEGACY:
                raise UnsupportedInstruction(
                    f"{where} needs AVX or a later extension, which the simulator does not run; "
                    "compile for x86:simd128, or use --device=host"
                )
            interrupts = instruction.flow_control in leaving_flow and instruction.mnemonic != mnemonic.INT3
            if instruction.is_privileged or instruction.mnemonic in leaving or interrupts:
                raise UnsupportedInstruction(f"{where} leaves the program; only computation can be simulated")
        for feature, user in required_features(image).items():
            if feature not in SUPPORTED_FEATURES:
                raise UnsupportedInstruction(
                    f"`{user.text}` at offset {user.offset:#x} needs {feature}, which is not simulated"
                )
    except DecodingError as error:
        raise UnsupportedInstruction(str(error)) from None
