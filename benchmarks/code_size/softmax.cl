// Softmax of every row, one workgroup of 128 per row; each work-item walks down its columns three times.
#define WAVES (128 / __AMDGCN_WAVEFRONT_SIZE)

static float fetch(float value, uint lane) {
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((int)(lane << 2), __builtin_bit_cast(int, value)));
}

// The total of a wave, by pairwise exchange; then of all waves, through workgroup storage.
#define REDUCE(name, combine, neutral)                                                              \
  static float name(float value, local float *totals) {                                             \
    uint lane = __builtin_amdgcn_mbcnt_lo(~0u, 0);                                                  \
    if (__AMDGCN_WAVEFRONT_SIZE == 64) lane = __builtin_amdgcn_mbcnt_hi(~0u, lane);                 \
    for (uint step = 1; step < __AMDGCN_WAVEFRONT_SIZE; step *= 2)                                  \
      value = combine(value, fetch(value, lane ^ step));                                            \
    totals[__builtin_amdgcn_workitem_id_x() / __AMDGCN_WAVEFRONT_SIZE] = value;                       \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");                                          \
    __builtin_amdgcn_s_barrier();                                                                   \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");                                          \
    float all = totals[0];                                                                          \
    for (uint wave = 1; wave < WAVES; ++wave) all = combine(all, totals[wave]);                     \
    return all;                                                                                     \
  }
#define ADD(a, b) ((a) + (b))
REDUCE(largest, __builtin_fmaxf, -__builtin_inff())
REDUCE(sum, ADD, 0.0f)

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
