// Matrix builtins. One wave per kernel; fragments are loaded and stored as AMD's articles about the instructions show.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define L ((int)__builtin_amdgcn_workitem_id_x())
typedef half half16_ __attribute__((ext_vector_type(16)));
typedef half half8_ __attribute__((ext_vector_type(8)));
typedef half half4_ __attribute__((ext_vector_type(4)));
typedef short short16_ __attribute__((ext_vector_type(16)));
typedef short short8_ __attribute__((ext_vector_type(8)));
typedef float float8_ __attribute__((ext_vector_type(8)));
typedef float float4_ __attribute__((ext_vector_type(4)));
typedef float float16_ __attribute__((ext_vector_type(16)));
typedef double double4_ __attribute__((ext_vector_type(4)));
typedef int int8_ __attribute__((ext_vector_type(8)));
typedef int int4_ __attribute__((ext_vector_type(4)));
typedef int int2_ __attribute__((ext_vector_type(2)));

#if defined(__gfx1100__) || defined(__gfx1151__)
kernel void f16(global const half *a, global const half *b, global float *o) {
  half16_ x, y; float8_ c = 0;
  for (int k = 0; k < 16; k++) { x[k] = a[16 * (L % 16) + k]; y[k] = b[16 * k + L % 16]; }
  for (int e = 0; e < 8; e++) c[e] = o[16 * (2 * e + L / 16) + L % 16];
  c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, c);
  for (int e = 0; e < 8; e++) o[16 * (2 * e + L / 16) + L % 16] = c[e];
}
kernel void bf16(global const short *a, global const short *b, global float *o) {
  short16_ x, y; float8_ c = 0;
  for (int k = 0; k < 16; k++) { x[k] = a[16 * (L % 16) + k]; y[k] = b[16 * k + L % 16]; }
  c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, c);
  for (int e = 0; e < 8; e++) o[16 * (2 * e + L / 16) + L % 16] = c[e];
}
kernel void f16_f16(global const half *a, global const half *b, global half *o) {
  half16_ x, y, c = 0;
  for (int k = 0; k < 16; k++) { x[k] = a[16 * (L % 16) + k]; y[k] = b[16 * k + L % 16]; }
  c = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(x, y, c, 1);
  for (int e = 0; e < 8; e++) o[16 * (2 * e + L / 16) + L % 16] = c[2 * e + 1];
}
kernel void i8(global const char *a, global const uchar *b, global int *o) {
  union { int4_ v; char c[16]; } x, y; int8_ c = 0;
  for (int k = 0; k < 16; k++) { x.c[k] = a[16 * (L % 16) + k]; y.c[k] = b[16 * k + L % 16]; }
  c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(1, x.v, 0, y.v, c, 0);
  for (int e = 0; e < 8; e++) o[16 * (2 * e + L / 16) + L % 16] = c[e];
}
#elif defined(__gfx1200__)
#define G (L / 16)
kernel void f16(global const half *a, global const half *b, global float *o) {
  half8_ x, y; float8_ c = 0;
  for (int e = 0; e < 8; e++) { x[e] = a[16 * (L % 16) + e + 8 * G]; y[e] = b[16 * (e + 8 * G) + L % 16]; }
  for (int e = 0; e < 8; e++) c[e] = o[16 * (e + 8 * G) + L % 16];
  c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, c);
  for (int e = 0; e < 8; e++) o[16 * (e + 8 * G) + L % 16] = c[e];
}
kernel void bf16(global const short *a, global const short *b, global float *o) {
  short8_ x, y; float8_ c = 0;
  for (int e = 0; e < 8; e++) { x[e] = a[16 * (L % 16) + e + 8 * G]; y[e] = b[16 * (e + 8 * G) + L % 16]; }
  c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, c);
  for (int e = 0; e < 8; e++) o[16 * (e + 8 * G) + L % 16] = c[e];
}
kernel void f16_f16(global const half *a, global const half *b, global half *o) {
  half8_ x, y, c = 0;
  for (int e = 0; e < 8; e++) { x[e] = a[16 * (L % 16) + e + 8 * G]; y[e] = b[16 * (e + 8 * G) + L % 16]; }
  c = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12(x, y, c);
  for (int e = 0; e < 8; e++) o[16 * (e + 8 * G) + L % 16] = c[e];
}
kernel void i8(global const char *a, global const uchar *b, global int *o) {
  union { int2_ v; char c[8]; } x, y; int8_ c = 0;
  for (int e = 0; e < 8; e++) { x.c[e] = a[16 * (L % 16) + e + 8 * G]; y.c[e] = b[16 * (e + 8 * G) + L % 16]; }
  c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(1, x.v, 0, y.v, c, 0);
  for (int e = 0; e < 8; e++) o[16 * (e + 8 * G) + L % 16] = c[e];
}
#else
kernel void f16(global const half *a, global const half *b, global float *o) {
  half4_ x, y; float4_ c;
  for (int e = 0; e < 4; e++) { x[e] = a[16 * (L % 16) + e + 4 * (L / 16)]; y[e] = b[16 * (e + 4 * (L / 16)) + L % 16]; }
  for (int e = 0; e < 4; e++) c[e] = o[16 * (e + 4 * (L / 16)) + L % 16];
  c = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, c, 0, 0, 0);
  for (int e = 0; e < 4; e++) o[16 * (e + 4 * (L / 16)) + L % 16] = c[e];
}
kernel void i8(global const char *a, global const char *b, global int *o) {  // 16 x 32 times 32 x 16
  union { long v; char c[8]; } x, y; int4_ c = 0;
  for (int e = 0; e < 8; e++) { x.c[e] = a[32 * (L % 16) + e + 8 * (L / 16)]; y.c[e] = b[16 * (e + 8 * (L / 16)) + L % 16]; }
  c = __builtin_amdgcn_mfma_i32_16x16x32_i8(x.v, y.v, c, 0, 0, 0);
  for (int e = 0; e < 4; e++) o[16 * (e + 4 * (L / 16)) + L % 16] = c[e];
}
kernel void wide(global const half *a, global const half *b, global float *o) {  // 32 x 8 times 8 x 32
  half4_ x, y; float16_ c = 0;
  for (int e = 0; e < 4; e++) { x[e] = a[8 * (L % 32) + e + 4 * (L / 32)]; y[e] = b[32 * (e + 4 * (L / 32)) + L % 32]; }
  c = __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, c, 0, 0, 0);
  for (int e = 0; e < 16; e++) o[32 * (8 * (e / 4) + 4 * (L / 32) + e % 4) + L % 32] = c[e];
}
kernel void f32(global const float *a, global const float *b, global float *o) {  // 16 x 4 times 4 x 16
  float4_ c = 0;
  c = __builtin_amdgcn_mfma_f32_16x16x4f32(a[4 * (L % 16) + L / 16], b[16 * (L / 16) + L % 16], c, 0, 0, 0);
  for (int e = 0; e < 4; e++) o[16 * (e + 4 * (L / 16)) + L % 16] = c[e];
}
kernel void f64(global const double *a, global const double *b, global double *o) {  // 16 x 4 times 4 x 16
  double4_ c = 0;
  c = __builtin_amdgcn_mfma_f64_16x16x4f64(a[4 * (L % 16) + L / 16], b[16 * (L / 16) + L % 16], c, 0, 0, 0);
  for (int e = 0; e < 4; e++) o[16 * (4 * e + L / 16) + L % 16] = c[e];
}
kernel void small(global const float *a, global const float *b, global float *o) {  // 16 blocks of 4 x 1 times 1 x 4
  float4_ c = 0;
  c = __builtin_amdgcn_mfma_f32_4x4x1f32(a[L], b[L], c, 0, 0, 0);
  for (int e = 0; e < 4; e++) o[16 * (L / 4) + 4 * e + L % 4] = c[e];
}
#endif

kernel void dots(global const int *a, global const int *b, global int *o) {
#if defined(__gfx1100__) || defined(__gfx1151__) || defined(__gfx1200__)
  o[4 * L] = __builtin_amdgcn_sudot4(1, a[L], 1, b[L], 5, 0);
  o[4 * L + 1] = __builtin_amdgcn_sudot4(1, a[L], 0, b[L], L, 0);
#else
  o[4 * L] = __builtin_amdgcn_sdot4(a[L], b[L], 5, 0);
  o[4 * L + 1] = __builtin_amdgcn_sdot2(as_short2(a[L]), as_short2(b[L]), L, 0);
#endif
  o[4 * L + 2] = __builtin_amdgcn_udot4(a[L], b[L], 7, 0);
  o[4 * L + 3] = __builtin_amdgcn_udot8(a[L], b[L], 9, 0);
}

kernel void half_dot(global const half *a, global const half *b, global float *o) {
  typedef half half2_ __attribute__((ext_vector_type(2)));
  half2_ x = {a[2 * L], a[2 * L + 1]}, y = {b[2 * L], b[2 * L + 1]};
  o[L] = __builtin_amdgcn_fdot2(x, y, (float)L, 0);
}

kernel void mixed(global const half *a, global const float *b, global float *o) {
  o[L] = __builtin_fmaf((float)a[L], b[L], -(float)a[L ^ 1]);
}
