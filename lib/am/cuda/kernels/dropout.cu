// Dropout, see tensor::GpuKernels. A block of threads computes a row. A thread computes eight
// elements at a time: four words of Philox are eight random numbers of 16 bits.

constexpr int kOfWords = 8;

// `factor` is 1 / (1 - p), rounded to Scalar; an element is dropped if its 16 bits are below
// `threshold`. `out` may be x.
AM_KERNEL drop(Scalar* out, const Scalar* x, const i64* rows, i64 width, i64 first_column, u64 key,
               u32 threshold, float factor) {
  const i64 at = blockIdx.x * width, before = first_column % kOfWords;
  const u64 global_row = rows[blockIdx.x];
  const i64 first_words = first_column / kOfWords;
  const bool packs =
      before == 0 && width % kOfWords == 0 && in_packs(x + at, width) && in_packs(out + at, width);
  for (i64 begin = threadIdx.x * kOfWords - before; begin < width; begin += blockDim.x * kOfWords) {
    const Words words = philox(key, global_row, first_words + (begin + before) / kOfWords);
    Pack parts[kOfWords / kLanes];
    if (packs) {
#pragma unroll
      for (int k = 0; k < kOfWords / kLanes; ++k) parts[k] = pack(x + at + begin + k * kLanes);
    }
#pragma unroll
    for (int lane = 0; lane < kOfWords; ++lane) {
      const i64 i = begin + lane;
      if (i < 0 || i >= width) continue;
      Scalar& one = parts[lane / kLanes].at[lane % kLanes];
      if (!packs) one = x[at + i];
      const u32 draw = words.at[lane / 2] >> (lane % 2 * 16) & 0xffff;
      one = narrow(draw < threshold ? 0.0f : wide(one) * factor);
      if (!packs) out[at + i] = one;
    }
    if (packs) {
#pragma unroll
      for (int k = 0; k < kOfWords / kLanes; ++k) pack(out + at + begin + k * kLanes) = parts[k];
    }
  }
}
