"""The SPIR-V instructions that compute kernels use, as one table read by the builder and by the disassembler.

Source: "SPIR-V Specification", version 1.6, section 3.49 (Instructions).

A row of the table is ``number name results operands ; capability``:

* results: ``TR`` a result type and a result, ``R`` a result alone, ``-`` neither;
* operands, in order: ``id``, ``int`` (one literal word), ``str`` (a literal string), ``word`` (a literal
  whose width the result type gives), ``phi`` (a value and its predecessor), ``case`` (a literal and a label),
  or the name of an enumeration; ``?`` marks an optional operand and ``*`` one that repeats to the end;
* capability: what the instruction declares by itself.  Types and group operations declare theirs where they
  are built.
"""

from __future__ import annotations

import attrs

from loom_target_spirv import enumerants
from loom_target_spirv.enumerants import Capability

MAGIC = 0x07230203
"""First word of every module (section 2.3)."""

VERSION_1_6 = 0x00010600
"""Version word of SPIR-V 1.6, the one Vulkan 1.3 consumes."""

GLSL_SET = "GLSL.std.450"
"""The extended instruction set of mathematical functions."""

_TABLE = """
# Debug, annotation and module-level instructions
0 OpNop -
1 OpUndef TR
3 OpSource - SourceLanguage int id? str?
5 OpName - id str
7 OpString R str
10 OpExtension - str
11 OpExtInstImport R str
12 OpExtInst TR id int id*
14 OpMemoryModel - AddressingModel MemoryModel
15 OpEntryPoint - ExecutionModel id str id*
16 OpExecutionMode - id ExecutionMode
17 OpCapability - Capability
# Types and constants
19 OpTypeVoid R
20 OpTypeBool R
21 OpTypeInt R int int
22 OpTypeFloat R int
23 OpTypeVector R id int
28 OpTypeArray R id id
29 OpTypeRuntimeArray R id
30 OpTypeStruct R id*
32 OpTypePointer R StorageClass id
33 OpTypeFunction R id id*
39 OpTypeForwardPointer - id StorageClass ; PhysicalStorageBufferAddresses
41 OpConstantTrue TR
42 OpConstantFalse TR
43 OpConstant TR word*
44 OpConstantComposite TR id*
46 OpConstantNull TR
48 OpSpecConstantTrue TR
49 OpSpecConstantFalse TR
50 OpSpecConstant TR word*
51 OpSpecConstantComposite TR id*
# Functions, memory, annotations
54 OpFunction TR FunctionControl id
55 OpFunctionParameter TR
56 OpFunctionEnd -
57 OpFunctionCall TR id id*
59 OpVariable TR StorageClass id?
61 OpLoad TR id MemoryAccess?
62 OpStore - id id MemoryAccess?
63 OpCopyMemory - id id MemoryAccess? MemoryAccess?
65 OpAccessChain TR id id*
66 OpInBoundsAccessChain TR id id*
67 OpPtrAccessChain TR id id id*
68 OpArrayLength TR id int
71 OpDecorate - id Decoration
72 OpMemberDecorate - id int Decoration
# Composites
77 OpVectorExtractDynamic TR id id
78 OpVectorInsertDynamic TR id id id
79 OpVectorShuffle TR id id int*
80 OpCompositeConstruct TR id*
81 OpCompositeExtract TR id int*
82 OpCompositeInsert TR id id int*
83 OpCopyObject TR id
# Conversions
109 OpConvertFToU TR id
110 OpConvertFToS TR id
111 OpConvertSToF TR id
112 OpConvertUToF TR id
113 OpUConvert TR id
114 OpSConvert TR id
115 OpFConvert TR id
117 OpConvertPtrToU TR id ; PhysicalStorageBufferAddresses
120 OpConvertUToPtr TR id ; PhysicalStorageBufferAddresses
124 OpBitcast TR id
# Arithmetic
126 OpSNegate TR id
127 OpFNegate TR id
128 OpIAdd TR id id
129 OpFAdd TR id id
130 OpISub TR id id
131 OpFSub TR id id
132 OpIMul TR id id
133 OpFMul TR id id
134 OpUDiv TR id id
135 OpSDiv TR id id
136 OpFDiv TR id id
137 OpUMod TR id id
138 OpSRem TR id id
139 OpSMod TR id id
140 OpFRem TR id id
141 OpFMod TR id id
148 OpDot TR id id
149 OpIAddCarry TR id id
150 OpISubBorrow TR id id
151 OpUMulExtended TR id id
152 OpSMulExtended TR id id
# Logic and comparisons
154 OpAny TR id
155 OpAll TR id
156 OpIsNan TR id
157 OpIsInf TR id
164 OpLogicalEqual TR id id
165 OpLogicalNotEqual TR id id
166 OpLogicalOr TR id id
167 OpLogicalAnd TR id id
168 OpLogicalNot TR id
169 OpSelect TR id id id
170 OpIEqual TR id id
171 OpINotEqual TR id id
172 OpUGreaterThan TR id id
173 OpSGreaterThan TR id id
174 OpUGreaterThanEqual TR id id
175 OpSGreaterThanEqual TR id id
176 OpULessThan TR id id
177 OpSLessThan TR id id
178 OpULessThanEqual TR id id
179 OpSLessThanEqual TR id id
180 OpFOrdEqual TR id id
181 OpFUnordEqual TR id id
182 OpFOrdNotEqual TR id id
183 OpFUnordNotEqual TR id id
184 OpFOrdLessThan TR id id
185 OpFUnordLessThan TR id id
186 OpFOrdGreaterThan TR id id
187 OpFUnordGreaterThan TR id id
188 OpFOrdLessThanEqual TR id id
189 OpFUnordLessThanEqual TR id id
190 OpFOrdGreaterThanEqual TR id id
191 OpFUnordGreaterThanEqual TR id id
# Bits
194 OpShiftRightLogical TR id id
195 OpShiftRightArithmetic TR id id
196 OpShiftLeftLogical TR id id
197 OpBitwiseOr TR id id
198 OpBitwiseXor TR id id
199 OpBitwiseAnd TR id id
200 OpNot TR id
201 OpBitFieldInsert TR id id id id
202 OpBitFieldSExtract TR id id id
203 OpBitFieldUExtract TR id id id
204 OpBitReverse TR id
205 OpBitCount TR id
# Barriers and atomics
224 OpControlBarrier - id id id
225 OpMemoryBarrier - id id
227 OpAtomicLoad TR id id id
228 OpAtomicStore - id id id id
229 OpAtomicExchange TR id id id id
230 OpAtomicCompareExchange TR id id id id id id
232 OpAtomicIIncrement TR id id id
233 OpAtomicIDecrement TR id id id
234 OpAtomicIAdd TR id id id id
235 OpAtomicISub TR id id id id
236 OpAtomicSMin TR id id id id
237 OpAtomicUMin TR id id id id
238 OpAtomicSMax TR id id id id
239 OpAtomicUMax TR id id id id
240 OpAtomicAnd TR id id id id
241 OpAtomicOr TR id id id id
242 OpAtomicXor TR id id id id
# Control flow
245 OpPhi TR phi*
246 OpLoopMerge - id id LoopControl
247 OpSelectionMerge - id SelectionControl
248 OpLabel R
249 OpBranch - id
250 OpBranchConditional - id id id int*
251 OpSwitch - id id case*
253 OpReturn -
254 OpReturnValue - id
255 OpUnreachable -
# Later additions
330 OpModuleProcessed - str
331 OpExecutionModeId - id ExecutionMode
# Subgroup operations
333 OpGroupNonUniformElect TR id ; GroupNonUniform
334 OpGroupNonUniformAll TR id id ; GroupNonUniformVote
335 OpGroupNonUniformAny TR id id ; GroupNonUniformVote
336 OpGroupNonUniformAllEqual TR id id ; GroupNonUniformVote
337 OpGroupNonUniformBroadcast TR id id id ; GroupNonUniformBallot
338 OpGroupNonUniformBroadcastFirst TR id id ; GroupNonUniformBallot
339 OpGroupNonUniformBallot TR id id ; GroupNonUniformBallot
340 OpGroupNonUniformInverseBallot TR id id ; GroupNonUniformBallot
341 OpGroupNonUniformBallotBitExtract TR id id id ; GroupNonUniformBallot
342 OpGroupNonUniformBallotBitCount TR id GroupOperation id ; GroupNonUniformBallot
343 OpGroupNonUniformBallotFindLSB TR id id ; GroupNonUniformBallot
344 OpGroupNonUniformBallotFindMSB TR id id ; GroupNonUniformBallot
345 OpGroupNonUniformShuffle TR id id id ; GroupNonUniformShuffle
346 OpGroupNonUniformShuffleXor TR id id id ; GroupNonUniformShuffle
347 OpGroupNonUniformShuffleUp TR id id id ; GroupNonUniformShuffleRelative
348 OpGroupNonUniformShuffleDown TR id id id ; GroupNonUniformShuffleRelative
349 OpGroupNonUniformIAdd TR id GroupOperation id id?
350 OpGroupNonUniformFAdd TR id GroupOperation id id?
351 OpGroupNonUniformIMul TR id GroupOperation id id?
352 OpGroupNonUniformFMul TR id GroupOperation id id?
353 OpGroupNonUniformSMin TR id GroupOperation id id?
354 OpGroupNonUniformUMin TR id GroupOperation id id?
355 OpGroupNonUniformFMin TR id GroupOperation id id?
356 OpGroupNonUniformSMax TR id GroupOperation id id?
357 OpGroupNonUniformUMax TR id GroupOperation id id?
358 OpGroupNonUniformFMax TR id GroupOperation id id?
359 OpGroupNonUniformBitwiseAnd TR id GroupOperation id id?
360 OpGroupNonUniformBitwiseOr TR id GroupOperation id id?
361 OpGroupNonUniformBitwiseXor TR id GroupOperation id id?
362 OpGroupNonUniformLogicalAnd TR id GroupOperation id id?
363 OpGroupNonUniformLogicalOr TR id GroupOperation id id?
364 OpGroupNonUniformLogicalXor TR id GroupOperation id id?
400 OpCopyLogical TR id
# Integer dot products
4450 OpSDot TR id id PackedVectorFormat? ; DotProduct
4451 OpUDot TR id id PackedVectorFormat? ; DotProduct
4452 OpSUDot TR id id PackedVectorFormat? ; DotProduct
4453 OpSDotAccSat TR id id id PackedVectorFormat? ; DotProduct
4454 OpUDotAccSat TR id id id PackedVectorFormat? ; DotProduct
4455 OpSUDotAccSat TR id id id PackedVectorFormat? ; DotProduct
# Float atomics
5614 OpAtomicFMinEXT TR id id id id
5615 OpAtomicFMaxEXT TR id id id id
6035 OpAtomicFAddEXT TR id id id id
"""


@attrs.frozen
class Instruction:
    """One row: `operands` are the kinds of the table's notation, `capability` what it declares by itself."""

    opcode: int
    name: str
    has_type: bool
    has_result: bool
    operands: tuple[str, ...]
    capability: Capability | None


def _read_table() -> dict[str, Instruction]:
    rows: dict[str, Instruction] = {}
    for line in _TABLE.splitlines():
        if not line or line.startswith("#"):
            continue
        form, _, capability = line.partition(" ; ")
        number, name, shape, *operands = form.split()
        rows[name] = Instruction(
            opcode=int(number),
            name=name,
            has_type="T" in shape,
            has_result="R" in shape,
            operands=tuple(operands),
            capability=Capability[capability] if capability else None,
        )
    return rows


BY_NAME: dict[str, Instruction] = _read_table()
"""The table by instruction name, for example ``"OpFAdd"``."""

BY_OPCODE: dict[int, Instruction] = {row.opcode: row for row in BY_NAME.values()}
"""The table by opcode number."""

BIT_MASKS = frozenset(
    {"FunctionControl", "LoopControl", "SelectionControl", "MemoryAccess", "MemorySemantics"}
)
"""Enumerations whose values combine bits."""

ARGUMENTS: dict[str, dict[int, str]] = {
    "Decoration": enumerants.DECORATION_ARGUMENTS,
    "ExecutionMode": enumerants.EXECUTION_MODE_ARGUMENTS,
    "MemoryAccess": enumerants.MEMORY_ACCESS_ARGUMENTS,
}
"""Enumerations whose values bring operands of their own."""
