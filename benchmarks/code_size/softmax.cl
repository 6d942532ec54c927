// Softmax of every row, one workgroup of 128 per row; each work-item walks down its columns three times.
#define WAVES (128 / __AMDGCN_WAVEFRONT_SIZE)

#define BITS(value) __builtin_bit_cast(int, value)
#define FLOAT(value) __builtin_bit_cast(float, value)
// The value of another lane of a row of sixteen; of the lane 16 further; of the lane 32 further.
#define NEAR(value, control) FLOAT(__builtin_amdgcn_update_dpp(0, BITS(value), control, 0xF, 0xF, true))
#define SWAP16(value) FLOAT(__builtin_amdgcn_ds_swizzle(BITS(value), 0x401F))
#define SWAP32(value, lane) FLOAT(__builtin_amdgcn_ds_bpermute((int)(((lane) ^ 32) << 2), BITS(value)))

// The total of a wave, by pairwise exchange; then of all waves, through workgroup storage.
#define REDUCE(name, combine)                                                                       \
  static float name(float value, local float *totals) {                                             \
    value = combine(value, NEAR(value, 0xB1));                                                      \
    value = combine(value, NEAR(value, 0x4E));                                                      \
    value = combine(value, NEAR(value, 0x141));                                                     \
    value = combine(value, NEAR(value, 0x140));                                                     \
    value = combine(value, SWAP16(value));                                                          \
    if (__AMDGCN_WAVEFRONT_SIZE == 64) {                                                            \
      uint lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));                \
      value = combine(value, SWAP32(value, lane));                                                  \
    }                                                                                               \
    totals[__builtin_amdgcn_workitem_id_x() / __AMDGCN_WAVEFRONT_SIZE] = value;                       \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");                                          \
    __builtin_amdgcn_s_barrier();                                                                   \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");                                          \
    float low = combine(totals[0], totals[1]);                                                      \
    return WAVES == 2 ? low : combine(low, combine(totals[2 % WAVES], totals[3 % WAVES]));          \
  }
#define ADD(a, b) ((a) + (b))
REDUCE(largest, __builtin_fmaxf)
REDUCE(sum, ADD)

__attribute__((reqd_work_group_size(128, 1, 1)))
kernel void softmax(INDEX rows, INDEX columns, global const float *restrict source, global float *restrict target) {
  __builtin_assume(rows <= 65535 && columns >= 1 && columns <= 65536);
  local float tops[WAVES];
  local float totals[WAVES];
  INDEX first = (INDEX)__builtin_amdgcn_workgroup_id_x() * columns;
  uint lane = __builtin_amdgcn_workitem_id_x();
  float mine = -__builtin_inff();
  for (INDEX c = lane; c < columns; c += 128) mine = __builtin_fmaxf(mine, source[first + c]);
  float top = largest(mine, tops);
  float part = 0.0f;
  for (INDEX c = lane; c < columns; c += 128) part += __builtin_expf(source[first + c] - top);
  float total = sum(part, totals);
  for (INDEX c = lane; c < columns; c += 128) target[first + c] = __builtin_expf(source[first + c] - top) / total;
}
