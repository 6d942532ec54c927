/* Products of 16 x 16 matrices whose right operand is loaded by instructions that transpose (gfx12, waves of 32). */
typedef half h8 __attribute__((ext_vector_type(8)));
typedef short s8 __attribute__((ext_vector_type(8)));
typedef float f8 __attribute__((ext_vector_type(8)));
typedef int i2 __attribute__((ext_vector_type(2)));
typedef int i8 __attribute__((ext_vector_type(8)));

kernel void halves(global half *a, global half *b, global float *out) {
  uint lane = __builtin_amdgcn_workitem_id_x();
  uint row = 8 * (lane / 16) + lane % 8, column = lane / 8 % 2 * 8;
  h8 left = *(global h8 *)(a + lane % 16 * 16 + lane / 16 * 8);
  s8 right = __builtin_amdgcn_global_load_tr_b128_v8i16((global s8 *)(b + row * 16 + column));
  f8 sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(left, __builtin_astype(right, h8), (f8)(0));
  for (int j = 0; j < 8; ++j)
    out[(lane / 16 * 8 + j) * 16 + lane % 16] = sum[j];
}

kernel void bytes(global char *a, global char *b, global int *out) {
  uint lane = __builtin_amdgcn_workitem_id_x();
  uint row = lane / 8 * 4 + lane % 4, column = lane / 4 % 2 * 8;
  i2 left = *(global i2 *)(a + lane % 16 * 16 + lane / 16 * 8);
  i2 right = __builtin_amdgcn_global_load_tr_b64_v2i32((global i2 *)(b + row * 16 + column));
  i8 sum = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, left, true, right, (i8)(0), false);
  for (int j = 0; j < 8; ++j)
    out[(lane / 16 * 8 + j) * 16 + lane % 16] = sum[j];
}
