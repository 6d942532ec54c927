// z = a * x + y, one element per work-item.
__attribute__((reqd_work_group_size(64, 1, 1)))
kernel void saxpy(INDEX count, float a, global const float *restrict x, global const float *restrict y,
                  global float *restrict z) {
  INDEX i = (INDEX)__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  if (i < count) z[i] = __builtin_fmaf(a, x[i], y[i]);
}
