// The sum of every row, left to right, one row per work-item.
__attribute__((reqd_work_group_size(32, 1, 1)))
kernel void row_sum(INDEX rows, INDEX columns, global const float *restrict matrix, global float *restrict sums) {
  __builtin_assume(rows <= 65536 && columns <= 1024);
  INDEX row = (INDEX)__builtin_amdgcn_workgroup_id_x() * 32 + __builtin_amdgcn_workitem_id_x();
  if (row >= rows) return;
  float sum = 0.0f;
  for (INDEX column = 0; column < columns; ++column) sum += matrix[row * columns + column];
  sums[row] = sum;
}
