// Workgroups of 128 whose work-items talk to each other through LDS, barriers, atomics and lane operations.
#define LID ((int)__builtin_amdgcn_workitem_id_x())
#define WG ((int)__builtin_amdgcn_workgroup_id_x())
#define SIZE 128
#define SYNC() do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); \
                    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); } while (0)
#define ADD(p, v, s) __opencl_atomic_fetch_add((p), (v), __ATOMIC_RELAXED, s)
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

kernel void reduce(global const float *a, global float *o) {
  local float t[SIZE];
  t[LID] = a[WG * SIZE + LID];
  SYNC();
  for (int s = SIZE / 2; s > 0; s >>= 1) { if (LID < s) t[LID] += t[LID + s]; SYNC(); }
  if (LID == 0) o[WG] = t[0];
}

kernel void scan(global const int *a, global int *o) {
  local int t[2][SIZE];
  int in = 0;
  t[0][LID] = a[WG * SIZE + LID];
  SYNC();
  for (int d = 1; d < SIZE; d <<= 1) {
    t[1 - in][LID] = t[in][LID] + (LID >= d ? t[in][LID - d] : 0);
    in = 1 - in;
    SYNC();
  }
  o[WG * SIZE + LID] = t[in][LID];
}

kernel void transpose(global const int *a, global int *o) {  // 8 x 16 tiles
  local int t[16 * 9];
  int r = LID / 16, c = LID % 16;
  t[c * 9 + r] = a[WG * SIZE + LID];
  SYNC();
  o[WG * SIZE + LID] = t[(LID / 8) * 9 + LID % 8];
}

kernel void matmul(global const float *a, global const float *b, global float *o, int n) {  // 16 x 8 tiles, n x n
  local float ta[8][16], tb[16][16];
  int x = LID % 16, y = LID / 16, tiles = n / 16;
  int row = WG / tiles * 8 + y, col = WG % tiles * 16 + x;
  float s = 0;
  for (int k = 0; k < n; k += 16) {
    ta[y][x] = a[row * n + k + x];
    tb[y][x] = b[(k + y) * n + col];
    tb[y + 8][x] = b[(k + y + 8) * n + col];
    SYNC();
    for (int j = 0; j < 16; j++) s = __builtin_fmaf(ta[y][j], tb[j][x], s);
    SYNC();
  }
  o[row * n + col] = s;
}

kernel void histogram(global const uint *a, global uint *o) {
  local uint t[32];
  if (LID < 32) t[LID] = 0;
  SYNC();
  ADD((local atomic_uint *)&t[a[WG * SIZE + LID] & 31], 1u, __OPENCL_MEMORY_SCOPE_WORK_GROUP);
  SYNC();
  if (LID < 32 && t[LID]) ADD((global atomic_uint *)&o[LID], t[LID], __OPENCL_MEMORY_SCOPE_DEVICE);
}

kernel void tickets(global uint *counter, global uint *o) {
  uint t = ADD((global atomic_uint *)counter, 1u, __OPENCL_MEMORY_SCOPE_DEVICE);
  o[t] = WG * SIZE + LID;
}

kernel void atomics(global const int *a, global int *o, global ulong *w) {
  int v = a[WG * SIZE + LID];
  __opencl_atomic_fetch_min((global atomic_int *)&o[0], v, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE);
  __opencl_atomic_fetch_max((global atomic_int *)&o[1], v, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE);
  __opencl_atomic_fetch_xor((global atomic_int *)&o[2], v, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE);
  __opencl_atomic_fetch_or((global atomic_uint *)&o[3], (uint)v, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE);
  __opencl_atomic_fetch_and((global atomic_uint *)&o[4], (uint)v, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE);
  __opencl_atomic_fetch_sub((global atomic_uint *)&o[5], (uint)v, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE);
  ADD((global atomic_ulong *)&w[0], (ulong)(uint)v, __OPENCL_MEMORY_SCOPE_DEVICE);
  __opencl_atomic_fetch_max((global atomic_ulong *)&w[1], (ulong)(uint)v * 3, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE);
}

kernel void swap_loop(global const uint *a, global uint *o) {  // saturating sum by compare and swap
  uint v = a[WG * SIZE + LID] & 0xff, old = *(volatile global uint *)o;
  while (1) {
    uint sum = old + v, wanted = sum > 10000 ? 10000 : sum;
    if (__opencl_atomic_compare_exchange_strong((global atomic_uint *)o, &old, wanted, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                                __OPENCL_MEMORY_SCOPE_DEVICE)) break;
  }
}

kernel void first_lane(global const int *a, global int *o) {
  int v = a[WG * SIZE + LID], r = -1;
  if (v & 1) r = __builtin_amdgcn_readfirstlane(v);
  o[WG * SIZE + LID] = r;
}

kernel void read_lane(global const int *a, global int *o) {
  int v = a[WG * SIZE + LID];
  o[WG * SIZE + LID] = __builtin_amdgcn_readlane(v, 7) - __builtin_amdgcn_readlane(v, WG & 31);
}

kernel void shuffle(global const int *a, global int *o) {
  int i = WG * SIZE + LID, v = a[i];
  o[2 * i] = __builtin_amdgcn_ds_bpermute((LID ^ 5) << 2, v);
  o[2 * i + 1] = __builtin_amdgcn_ds_permute((LID + 3 & 31) << 2, v);
}

kernel void swizzle(global const int *a, global int *o) {
  int i = WG * SIZE + LID, v = a[i];
  o[2 * i] = __builtin_amdgcn_ds_swizzle(v, 0x041F);      // xor 1
  o[2 * i + 1] = __builtin_amdgcn_ds_swizzle(v, 0x8039);  // quad [1,2,3,0]
}

kernel void dpp(global const int *a, global int *o) {
  int i = WG * SIZE + LID, v = a[i];
  o[4 * i + 0] = __builtin_amdgcn_update_dpp(-1, v, 0x111, 0xf, 0xf, 0);  // row_shr:1
  o[4 * i + 1] = __builtin_amdgcn_update_dpp(-1, v, 0x102, 0xf, 0xf, 1);  // row_shl:2, zero fill
  o[4 * i + 2] = __builtin_amdgcn_update_dpp(-1, v, 0x1B, 0xf, 0xf, 0);   // quad_perm [3,2,1,0]
  o[4 * i + 3] = __builtin_amdgcn_update_dpp(-1, v, 0x124, 0x5, 0xf, 0);  // row_ror:4, rows 0 and 2
}

kernel void ballot(global const int *a, global int *o) {
  int i = WG * SIZE + LID;
  ulong m = __builtin_amdgcn_ballot_w64(a[i] > 0);
  o[i] = __builtin_popcountl(m) * 100 + __builtin_amdgcn_mbcnt_hi((uint)(m >> 32), __builtin_amdgcn_mbcnt_lo((uint)m, 0));
}

kernel void block_sum(global const int *a, global int *o) {  // early exit of whole waves before no barrier
  int i = WG * SIZE + LID;
  if (LID >= 64) { o[i] = -1; return; }
  int s = 0;
  for (int k = 0; k <= LID; k++) s += a[WG * SIZE + k];
  o[i] = s;
}

kernel void dims(global int *o, int w) {
  int x = __builtin_amdgcn_workgroup_id_x() * 8 + __builtin_amdgcn_workitem_id_x();
  int y = __builtin_amdgcn_workgroup_id_y() * 4 + __builtin_amdgcn_workitem_id_y();
  int z = __builtin_amdgcn_workgroup_id_z() * 3 + __builtin_amdgcn_workitem_id_z();
  o[(z * 8 + y) * w + x] = x + 100 * y + 10000 * z;
}

kernel void hidden(global int *o) {
  constant int *p = (constant int *)__builtin_amdgcn_implicitarg_ptr();
  o[WG * SIZE + LID] = p[0] * 1000 + ((constant ushort *)p)[6];
}

kernel void packet(global int *o) {
  constant ushort *p = (constant ushort *)__builtin_amdgcn_dispatch_ptr();
  o[WG * SIZE + LID] = p[2] + ((constant int *)p)[3] * 1000;
}

static int pick(int *t, local int *l, int i) { int *p = i & 1 ? t : (int *)l; return p[i & 7]; }

kernel void generic_pointer(global const int *a, global int *o) {
  local int l[8];
  int t[8];
  if (LID < 8) l[LID] = LID * 11;
  for (int k = 0; k < 8; k++) t[k] = a[WG * SIZE + k] + LID;
  SYNC();
  o[WG * SIZE + LID] = pick(t, l, LID + a[WG * SIZE + LID]);
}

kernel void dynamic_lds(global const int *a, local int *t, global int *o) {
  t[LID] = a[WG * SIZE + LID];
  SYNC();
  o[WG * SIZE + LID] = t[SIZE - 1 - LID];
}

kernel void float_atomic(global const float *a, global float *o) {
  local float t;
  if (LID == 0) t = 0;
  SYNC();
  __builtin_amdgcn_ds_faddf(&t, a[WG * SIZE + LID], 0, 0, 0);
  SYNC();
  if (LID == 0) o[WG] = t;
}

kernel void small_lds(global const uchar *a, global const ushort *b, global int *o) {  // bytes and shorts in LDS
  local uchar t[SIZE];
  local ushort u[SIZE + 1];
  local char s[SIZE];
  t[LID] = a[WG * SIZE + LID];
  s[SIZE - 1 - LID] = (char)a[WG * SIZE + LID];
  u[LID + 1] = b[WG * SIZE + LID];
  if (LID == 0) u[0] = 7;
  SYNC();
  o[WG * SIZE + LID] = t[LID ^ 1] * 1000 + u[LID] + ((short)u[LID + 1] >> 4) - s[LID];
}

#define LOCAL_ATOMIC(op, p, v) __opencl_atomic_##op((p), (v), __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_WORK_GROUP)

kernel void lds_atomics(global const int *a, global int *o, global ulong *w) {
  local int t[6];
  local ulong u[2];
  int v = a[WG * SIZE + LID];
  if (LID < 6) t[LID] = LID == 4 ? -1 : 0;
  if (LID < 2) u[LID] = 0;
  SYNC();
  LOCAL_ATOMIC(fetch_min, (local atomic_int *)&t[0], v);
  LOCAL_ATOMIC(fetch_max, (local atomic_int *)&t[1], v);
  LOCAL_ATOMIC(fetch_xor, (local atomic_int *)&t[2], v);
  LOCAL_ATOMIC(fetch_or, (local atomic_int *)&t[3], v);
  LOCAL_ATOMIC(fetch_and, (local atomic_int *)&t[4], v);
  LOCAL_ATOMIC(fetch_sub, (local atomic_int *)&t[5], v);
  LOCAL_ATOMIC(fetch_add, (local atomic_ulong *)&u[0], (ulong)(uint)v);
  LOCAL_ATOMIC(fetch_max, (local atomic_ulong *)&u[1], (ulong)(uint)v * 3);
  SYNC();
  if (LID < 6) o[WG * 6 + LID] = t[LID];
  if (LID < 2) w[WG * 2 + LID] = u[LID];
}

kernel void exchange(global int *slot, global int *o) {  // every value is handed on exactly once
  int v = WG * SIZE + LID + 1;
  o[v - 1] = __opencl_atomic_exchange((global atomic_int *)slot, v, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE);
}

kernel void butterfly(global const int *a, global int *o) {  // sum of 32 lanes, without LDS
  int v = a[WG * SIZE + LID];
  for (int m = 16; m > 0; m >>= 1) v += __builtin_amdgcn_ds_bpermute((LID ^ m) << 2, v);
  o[WG * SIZE + LID] = v;
}
