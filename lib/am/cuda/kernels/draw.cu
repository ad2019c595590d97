// Random values of tensors of up to four dims, see tensor::GpuKernels. A thread draws one value.
struct Box {
  i64 shape[4], offset[4], stride[4];
};

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

// Element i of the box gets the value at its index in the whole tensor.
AM_KERNEL draw(Scalar* out, Box box, i64 count, u64 key, u64 stream, int normal, float scale) {
  const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  i64 index = 0, left = i;
#pragma unroll
  for (int dim = 3; dim >= 0; --dim) {
    index += (box.offset[dim] + left % box.shape[dim]) * box.stride[dim];
    left /= box.shape[dim];
  }
  const Words words = philox(key, u64(index) / 4, stream);
  // Selects words without variable indices, for which an array would have to be in memory.
  const bool second = index % 4 >= 2, odd = index % 2 == 1;
  const u32 a = second ? words.at[2] : words.at[0], b = second ? words.at[3] : words.at[1];
  if (normal) {
    const NormalPair pair = normal_pair(a, b);
    out[i] = narrow(0.0f + scale * (odd ? pair.second : pair.first));
  } else {
    const float unit = 2.0f * (1.0f / 16777216.0f) * float((odd ? b : a) >> 8) - 1.0f;
    out[i] = narrow(scale * unit);
  }
}
