// One work-item per element, no communication: the same source is compiled for the GPU and for the CPU.
#ifdef GPU
#define KERNEL kernel
#define GLOBAL global
#define NOINLINE __attribute__((noinline))
#define GID ((int)(__builtin_amdgcn_workgroup_id_x() * 96 + __builtin_amdgcn_workitem_id_x()))
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef half f16;
typedef uchar u8; typedef char i8; typedef ushort u16; typedef short i16;
typedef uint u32; typedef int i32; typedef ulong u64; typedef long i64;
#else
#define KERNEL
#define GLOBAL
#define NOINLINE __attribute__((noinline))
int gid;
#define GID gid
typedef _Float16 f16;
typedef unsigned char u8; typedef signed char i8; typedef unsigned short u16; typedef short i16;
typedef unsigned u32; typedef int i32; typedef unsigned long u64; typedef long i64;
#endif

KERNEL void saxpy(i32 n, float a, GLOBAL const float *x, GLOBAL float *y) {
  i32 i = GID;
  if (i < n) y[i] = a * x[i] + y[i];
}

KERNEL void fma32(i32 n, GLOBAL const float *a, GLOBAL const float *b, GLOBAL const float *c, GLOBAL float *o) {
  i32 i = GID;
  if (i < n) o[i] = __builtin_fmaf(a[i], b[i], c[i]);
}

KERNEL void fma64(i32 n, GLOBAL const double *a, GLOBAL const double *b, GLOBAL const double *c, GLOBAL double *o) {
  i32 i = GID;
  if (i < n) o[i] = __builtin_fma(a[i], b[i], c[i]);
}

KERNEL void div_f32(i32 n, GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *o) {
  i32 i = GID;
  if (i < n) o[i] = a[i] / b[i];
}

KERNEL void div_f64(i32 n, GLOBAL const double *a, GLOBAL const double *b, GLOBAL double *o) {
  i32 i = GID;
  if (i < n) o[i] = a[i] / b[i];
}

KERNEL void sqrt_f32(i32 n, GLOBAL const float *a, GLOBAL float *o) {
  i32 i = GID;
  if (i < n) o[i] = __builtin_sqrtf(a[i]);
}

KERNEL void sqrt_f64(i32 n, GLOBAL const double *a, GLOBAL double *o) {
  i32 i = GID;
  if (i < n) o[i] = __builtin_sqrt(a[i]);
}

KERNEL void mixed_f64(i32 n, GLOBAL const double *a, GLOBAL const double *b, GLOBAL double *o) {
  i32 i = GID;
  if (i < n) {
    double s = a[i] + b[i], d = a[i] - b[i], p = s * d;
    o[i] = p > 0 ? p * 0.5 : -p + (double)(float)s;
  }
}

KERNEL void div_i32(i32 n, GLOBAL const i32 *a, GLOBAL const i32 *b, GLOBAL i32 *o) {
  i32 i = GID;
  if (i < n) { i32 d = b[i] | 1; o[2 * i] = a[i] / (d == -1 ? 3 : d); o[2 * i + 1] = a[i] % (d == -1 ? 3 : d); }
}

KERNEL void div_u32(i32 n, GLOBAL const u32 *a, GLOBAL const u32 *b, GLOBAL u32 *o) {
  i32 i = GID;
  if (i < n) { o[2 * i] = a[i] / (b[i] | 1); o[2 * i + 1] = a[i] % (b[i] | 1); }
}

KERNEL void div_const(i32 n, GLOBAL const i32 *a, GLOBAL i32 *o) {
  i32 i = GID;
  if (i < n) o[i] = a[i] / 7 + a[i] % 10 + (i32)((u32)a[i] / 13u) - a[i] / 16;
}

KERNEL void div_i64(i32 n, GLOBAL const i64 *a, GLOBAL const i64 *b, GLOBAL i64 *o) {
  i32 i = GID;
  if (i < n) { i64 d = b[i] | 1; d = d == -1 ? 5 : d; o[2 * i] = a[i] / d; o[2 * i + 1] = a[i] % d; }
}

KERNEL void div_u64(i32 n, GLOBAL const u64 *a, GLOBAL const u64 *b, GLOBAL u64 *o) {
  i32 i = GID;
  if (i < n) { o[2 * i] = a[i] / (b[i] | 1); o[2 * i + 1] = a[i] % ((b[i] >> 40) | 1); }
}

KERNEL void arith_i64(i32 n, GLOBAL const i64 *a, GLOBAL const i64 *b, GLOBAL i64 *o) {
  i32 i = GID;
  if (i < n) {
    i64 x = a[i], y = b[i];
    i32 s = (i32)y & 63;
    o[i] = (x + y) * (x - y) ^ (x << s) ^ (x >> s) ^ (i64)((u64)y >> (63 - s)) ^ (x < y ? x : y) ^ ((u64)x > (u64)y ? 3 : 5);
  }
}

KERNEL void mul_wide(i32 n, GLOBAL const i32 *a, GLOBAL const i32 *b, GLOBAL i64 *o) {
  i32 i = GID;
  if (i < n) o[i] = (i64)a[i] * b[i] + (i64)((u64)(u32)a[i] * (u32)b[i]);
}

KERNEL void bits32(i32 n, GLOBAL const u32 *a, GLOBAL u32 *o) {
  i32 i = GID;
  if (i < n) {
    u32 x = a[i], r = 0;
    r += __builtin_popcount(x);
    r = r * 31 + (x ? __builtin_clz(x) : 32);
    r = r * 31 + (x ? __builtin_ctz(x) : 32);
    r ^= __builtin_bitreverse32(x) ^ __builtin_bswap32(x * 3);
    r += (x << 7 | x >> 25) + (x >> 5 & 0x3ff) + ((i32)(x << 9) >> 20);
    o[i] = r ^ __builtin_rotateleft32(x, x & 31);
  }
}

KERNEL void bits64(i32 n, GLOBAL const u64 *a, GLOBAL u64 *o) {
  i32 i = GID;
  if (i < n) {
    u64 x = a[i];
    o[i] = __builtin_popcountl(x) + (x ? __builtin_clzl(x) * 100 + __builtin_ctzl(x) * 10000 : 7)
         ^ __builtin_bitreverse64(x) ^ __builtin_bswap64(x) ^ __builtin_rotateright64(x, x & 63);
  }
}

KERNEL void bytes(i32 n, GLOBAL const u8 *a, GLOBAL const i8 *b, GLOBAL u8 *o, GLOBAL i16 *p) {
  i32 i = GID;
  if (i < n) { o[i] = (u8)(a[i] + b[i]); p[i] = (i16)(a[i] * b[i] - (i16)(a[i] << 5)); }
}

KERNEL void shorts(i32 n, GLOBAL const u16 *a, GLOBAL const i16 *b, GLOBAL i16 *o) {
  i32 i = GID;
  if (i < n) {
    i16 x = (i16)(a[i] - b[i]); u16 y = (u16)(a[i] * 3 + b[i]);
    o[i] = (i16)((x > (i16)y ? x : (i16)y) + (y >> (a[i] & 15)) + (x >> (a[i] & 7)));
  }
}

KERNEL void collatz(i32 n, GLOBAL const u32 *a, GLOBAL i32 *o) {
  i32 i = GID;
  if (i < n) {
    u32 x = (a[i] & 0xffff) + 1; i32 steps = 0;
    while (x != 1 && steps < 60) { x = x & 1 ? 3 * x + 1 : x >> 1; steps++; }
    o[i] = steps;
  }
}

KERNEL void nested(i32 n, GLOBAL const i32 *a, GLOBAL i32 *o) {
  i32 i = GID;
  if (i >= n) return;
  i32 total = 0;
  for (i32 j = 0; j < (a[i] & 15); j++) {
    for (i32 k = 0; k < 10; k++) {
      if (((k ^ j) & 3) == 3) continue;
      if (k * j > (a[i] >> 4 & 31)) break;
      total += k * j + 1;
    }
    if (total > 100) { total -= 1000; break; }
  }
  o[i] = total;
}

KERNEL void switches(i32 n, GLOBAL const i32 *a, GLOBAL i32 *o) {
  i32 i = GID;
  if (i < n) {
    i32 r;
    switch (a[i] & 7) {
    case 0: r = a[i] * 3; break;
    case 1: r = a[i] ^ 0x55; break;
    case 2: r = a[i] >> 3; break;
    case 3: r = -a[i];
    case 4: r = a[i] + 17; break;
    case 6: r = a[i] % 11; break;
    default: r = 99;
    }
    o[i] = r;
  }
}

KERNEL void scratch_array(i32 n, GLOBAL const i32 *a, GLOBAL i32 *o) {
  i32 i = GID;
  if (i < n) {
    i32 t[16];
    for (i32 k = 0; k < 16; k++) t[k] = a[i] + k * k;
    for (i32 k = 0; k < 16; k++) t[(a[i] + k) & 15] += t[(a[i] >> 4) + k & 15];
    o[i] = t[a[i] & 15] ^ t[a[i] >> 8 & 15];
  }
}

KERNEL void byte_array(i32 n, GLOBAL const u32 *a, GLOBAL u32 *o) {
  i32 i = GID;
  if (i < n) {
    u8 t[32];
    for (i32 k = 0; k < 32; k++) t[k] = (u8)(a[i] >> (k & 15)) + k;
    u32 r = 0;
    for (i32 k = 0; k < 8; k++) r = r * 33 + t[(a[i] >> (4 * k)) & 31];
    o[i] = r;
  }
}

KERNEL void convert(i32 n, GLOBAL const float *a, GLOBAL i32 *o, GLOBAL float *p, GLOBAL double *q) {
  i32 i = GID;
  if (i < n) {
    float x = a[i] > -1e9f && a[i] < 1e9f ? a[i] : 12.5f;
    i32 s = (i32)x; u32 u = (u32)(x < 0 ? -x : x);
    o[i] = s ^ (i32)u;
    p[i] = (float)s + (float)(u * 2654435761u) + (float)(i64)(s * 1000003ll);
    q[i] = (double)s * 0.1 + (double)(u64)u + x;
  }
}

KERNEL void rounding(i32 n, GLOBAL const float *a, GLOBAL float *o) {
  i32 i = GID;
  if (i < n) o[i] = __builtin_floorf(a[i]) + 3 * __builtin_ceilf(a[i]) - __builtin_truncf(a[i] * 2) + __builtin_rintf(a[i]) * 0.5f;
}

KERNEL void halves(i32 n, GLOBAL const f16 *a, GLOBAL const f16 *b, GLOBAL f16 *o) {
  i32 i = GID;
  if (i < n) { f16 x = a[i], y = b[i]; f16 s = x + y; f16 m = x * y; o[i] = x < y ? s - m : m + x; }
}

KERNEL void compare_f32(i32 n, GLOBAL const float *a, GLOBAL const float *b, GLOBAL i32 *o) {
  i32 i = GID;
  if (i < n) {
    float x = a[i], y = b[i];
    o[i] = (x < y) | (x <= y) << 1 | (x > y) << 2 | (x >= y) << 3 | (x == y) << 4 | (x != y) << 5 | (x != x) << 6
         | __builtin_isinf(x) << 7 | __builtin_isunordered(x, y) << 8;
  }
}

KERNEL void min_max(i32 n, GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *o) {
  i32 i = GID;
  if (i < n) { o[2 * i] = __builtin_fminf(a[i], b[i]); o[2 * i + 1] = __builtin_fabsf(__builtin_fmaxf(-a[i], b[i])); }
}

KERNEL void selects(i32 n, GLOBAL const i32 *a, GLOBAL const i32 *b, GLOBAL i32 *o) {
  i32 i = GID;
  if (i < n) {
    i32 x = a[i], y = b[i];
    i32 lo = x < y ? x : y, hi = x < y ? y : x; u32 ul = (u32)x < (u32)y ? x : y;
    i32 m = hi < 100 ? hi : 100; m = m > -100 ? m : -100;
    o[i] = lo ^ (i32)ul ^ (m << 3) ^ (x > 0 && y < 0 ? 77 : x == y || !(x & 1) ? 5 : -9);
  }
}

static NOINLINE u32 mix(u32 h, u32 k) {
  k *= 0xcc9e2d51u; k = k << 15 | k >> 17; k *= 0x1b873593u; h ^= k; h = h << 13 | h >> 19;
  return h * 5 + 0xe6546b64u;
}

KERNEL void calls(i32 n, GLOBAL const u32 *a, GLOBAL u32 *o) {
  i32 i = GID;
  if (i < n) {
    u32 h = 1;
    for (u32 k = 0; k < (a[i] & 3) + 1; k++) h = mix(h, a[i] + k);
    o[i] = h;
  }
}

struct pixel { u8 r, g, b, a; u16 depth; float weight; };

KERNEL void structs(i32 n, GLOBAL const struct pixel *a, GLOBAL struct pixel *o) {
  i32 i = GID;
  if (i < n) {
    struct pixel p = a[i];
    u8 t = p.r; p.r = p.b; p.b = t; p.depth += p.g * 3; p.weight = p.weight * 0.25f + p.a;
    o[n - 1 - i] = p;
  }
}

KERNEL void table(i32 n, GLOBAL const u32 *a, GLOBAL u32 *o) {
  static
#ifdef GPU
  constant
#endif
  const u32 t[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
  i32 i = GID;
  if (i < n) o[i] = t[a[i] & 15] * 100 + t[i & 7];
}

KERNEL void unaligned(i32 n, GLOBAL const u8 *a, GLOBAL u64 *o) {
  i32 i = GID;
  if (i < n) { u64 v; u32 w; __builtin_memcpy(&v, (GLOBAL void *)(a + 3 * i), 8); __builtin_memcpy(&w, (GLOBAL void *)(a + i), 4); o[i] = v + w; }
}

KERNEL void matrix_rows(i32 n, GLOBAL const float *a, GLOBAL float *o) {
  i32 i = GID;
  if (i < n) {
    float s = 0, c = 0;
    for (i32 k = 0; k < 37; k++) { float y = a[i * 37 + k] - c, t = s + y; c = (t - s) - y; s = t; }
    o[i] = s;
  }
}

KERNEL void half_steps(i32 n, GLOBAL const f16 *a, GLOBAL const f16 *b, GLOBAL f16 *o, GLOBAL i16 *p) {
  i32 i = GID;
  if (i < n) {
    f16 x = a[i], y = b[i];
    f16 q = (f16)((float)x / (float)y);
    i16 s = x > (f16)-30000 && x < (f16)30000 ? (i16)x : (i16)7;
    u16 u = y > (f16)0 && y < (f16)60000 ? (u16)y : (u16)9;
    p[i] = (i16)(s + u);
    f16 t = q + (f16)s;  // an assignment each: the CPU may keep more precision inside an expression
    o[i] = t - (f16)u;
  }
}

KERNEL void f64_steps(i32 n, GLOBAL const double *a, GLOBAL const double *b, GLOBAL double *o, GLOBAL i64 *p) {
  i32 i = GID;
  if (i < n) {
    double x = a[i] > -1e15 && a[i] < 1e15 ? a[i] : 3.75, y = b[i];
    p[i] = (i64)x * 3 + (i32)(x > -1e9 && x < 1e9 ? x : 2.5) + (u32)(x >= 0 && x < 4e9 ? x : 1.5);
    o[i] = __builtin_floor(x) - __builtin_ceil(x * 0.5) + __builtin_trunc(x * 3) + __builtin_rint(x)
         + (double)p[i] + (double)(u64)(p[i] < 0 ? -p[i] : p[i]) + (y < x ? 1.0 : y != y ? 2.0 : 0.25);
  }
}

KERNEL void short_vectors(i32 n, GLOBAL const i16 *a, GLOBAL const i16 *b, GLOBAL i16 *o) {
  typedef i16 i16x4 __attribute__((ext_vector_type(4)));
  i32 i = GID;
  if (i < n) {
    i16x4 x, y;
    for (i32 k = 0; k < 4; k++) { x[k] = a[4 * i + k]; y[k] = b[4 * i + k]; }
    i16x4 r = x * y + (x - y) ^ (x << (i16)3) ^ (y >> (i16)5);
    r = __builtin_elementwise_max(r, __builtin_elementwise_min(x, y));
    for (i32 k = 0; k < 4; k++) o[4 * i + k] = r[k];
  }
}

KERNEL void half_vectors(i32 n, GLOBAL const f16 *a, GLOBAL const f16 *b, GLOBAL f16 *o) {
  typedef f16 f16x2 __attribute__((ext_vector_type(2)));
  i32 i = GID;
  if (i < n) {
    f16x2 x = {a[2 * i], a[2 * i + 1]}, y = {b[2 * i], b[2 * i + 1]};
    f16x2 r = x * y; r = r + y; r = r - x.yx; r = -r * y.xx;
    o[2 * i] = r.x; o[2 * i + 1] = r.y;
  }
}

KERNEL void saturating(i32 n, GLOBAL const i32 *a, GLOBAL const i32 *b, GLOBAL i32 *o) {
  i32 i = GID;
  if (i < n) {
    i32 x = a[i], y = b[i];
    o[4 * i] = __builtin_elementwise_add_sat(x, y);
    o[4 * i + 1] = __builtin_elementwise_sub_sat(x, y);
    o[4 * i + 2] = (i32)(__builtin_elementwise_add_sat((u32)x, (u32)y) ^ __builtin_elementwise_sub_sat((u32)x, (u32)y));
    o[4 * i + 3] = __builtin_elementwise_add_sat((i16)x, (i16)y) * 3 + __builtin_elementwise_sub_sat((u16)x, (u16)y);
  }
}

KERNEL void crc32(i32 n, GLOBAL const u32 *a, GLOBAL u32 *o) {
  i32 i = GID;
  if (i < n) {
    u32 c = ~a[i];
    for (i32 k = 0; k < 32; k++) c = c >> 1 ^ (0xedb88320u & -(c & 1));
    o[i] = ~c;
  }
}

KERNEL void sorting(i32 n, GLOBAL const i32 *a, GLOBAL i32 *o) {
  i32 i = GID;
  if (i < n) {
    i32 t[6];
    for (i32 k = 0; k < 6; k++) t[k] = a[(i + 37 * k) % n];
    for (i32 k = 1; k < 6; k++) {
      i32 v = t[k], j = k;
      while (j > 0 && t[j - 1] > v) { t[j] = t[j - 1]; j--; }
      t[j] = v;
    }
    o[i] = t[a[i] & 3] - t[5];
  }
}

KERNEL void integer_root(i32 n, GLOBAL const u64 *a, GLOBAL u64 *o) {
  i32 i = GID;
  if (i < n) {
    u64 x = a[i] >> 34, r = 0, bit = 1ul << 28;
    while (bit > x) bit >>= 2;
    while (bit) { if (x >= r + bit) { x -= r + bit; r = (r >> 1) + bit; } else r >>= 1; bit >>= 2; }
    o[i] = r;
  }
}

KERNEL void escape_time(i32 n, GLOBAL const float *a, GLOBAL i32 *o) {
  i32 i = GID;
  if (i < n) {
    float cr = (float)(i % 23) * 0.12f - 2.0f, ci = (float)(i / 23) * 0.15f - 1.1f, x = a[i & 1] * 0, y = 0;
    i32 k = 0;
    for (; k < 24 && x * x + y * y < 4; k++) { float t = x * x - y * y + cr; y = 2 * x * y + ci; x = t; }
    o[i] = k;
  }
}
