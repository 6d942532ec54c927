// C = A B in tiles of 16 by 16 that a workgroup keeps in workgroup memory; what is outside of a matrix is zero.
__attribute__((reqd_work_group_size(16, 16, 1)))
kernel void tiled_matmul(INDEX m, INDEX n, INDEX k, global const float *restrict a, global const float *restrict b,
                         global float *restrict c) {
  __builtin_assume(m <= 4096 && n <= 4096 && k <= 4096);
  local float a_tile[16][17];
  local float b_tile[16][17];
  uint x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
  INDEX row = (INDEX)__builtin_amdgcn_workgroup_id_y() * 16 + y;
  INDEX column = (INDEX)__builtin_amdgcn_workgroup_id_x() * 16 + x;
  float sum = 0.0f;
  for (INDEX at = 0; at < k; at += 16) {
    a_tile[y][x] = row < m && at + x < k ? a[row * k + at + x] : 0.0f;
    b_tile[y][x] = at + y < k && column < n ? b[(at + y) * n + column] : 0.0f;
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup", "local");
    _Pragma("unroll")
    for (uint i = 0; i < 16; ++i) sum = __builtin_fmaf(a_tile[y][i], b_tile[i][x], sum);
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup", "local");
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
