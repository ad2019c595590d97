// Random values of tensors of up to four dims, see tensor::GpuKernels. A thread draws one value.
struct Box {
  i64 shape[4], offset[4], stride[4];
};

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
  // Selects words without a variable index, which would move the array to local memory.
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
