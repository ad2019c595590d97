// Random words for the kernels `draw` and `drop`.
struct Words {
  u32 at[4];
};

// Philox4x32-10 of (key, block, stream); see base/random.h.
__device__ __forceinline__ Words philox(u64 key, u64 block, u64 stream) {
  u32 x0 = u32(block), x1 = u32(block >> 32), x2 = u32(stream), x3 = u32(stream >> 32);
  u32 k0 = u32(key), k1 = u32(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = u64(0xD2511F53u) * x0, p1 = u64(0xCD9E8D57u) * x2;
    x0 = u32(p1 >> 32) ^ x1 ^ k0;
    x1 = u32(p1);
    x2 = u32(p0 >> 32) ^ x3 ^ k1;
    x3 = u32(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{x0, x1, x2, x3}};
}
