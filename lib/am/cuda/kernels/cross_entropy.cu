// Cross-entropy, see tensor::GpuKernels. A block of threads computes a row.

__device__ __forceinline__ float lowest() { return __int_as_float(0xff800000); }  // -inf

struct Sums {
  float top, sum;
};  // top: largest x so far; sum: sum of e^(x - top)

__device__ __forceinline__ void add(Sums& s, float x) {
  s.sum += x == lowest() ? 0.0f : expf(x - s.top);
}

__device__ __forceinline__ void raise(Sums& s, float top) {
  if (top > s.top) {
    s.sum *= expf(s.top - top);
    s.top = top;
  }
}

__device__ __forceinline__ Sums joined(Sums a, const Sums& b) {
  if (b.top == lowest()) return {a.top, a.sum + b.sum};
  raise(a, b.top);
  return {a.top, a.sum + b.sum * expf(b.top - a.top)};
}

__device__ __forceinline__ Sums joined_over_warp(Sums s) {
  for (int apart = 16; apart > 0; apart /= 2) {
    s = joined(
        s, {__shfl_xor_sync(0xffffffff, s.top, apart), __shfl_xor_sync(0xffffffff, s.sum, apart)});
  }
  return s;
}

AM_KERNEL logit_sums(float* maximum, float* exponentials, float* of_label, const Scalar* logits,
                     const i64* labels, i64 width, i64 first) {
  const Scalar* row = logits + blockIdx.x * width;
  Sums mine = {lowest(), 0.0f};
  if (in_packs(row, width)) {
    for (i64 i = threadIdx.x * kLanes; i < width; i += blockDim.x * kLanes) {
      const Pack x = pack(row + i);
      float top = lowest();
#pragma unroll
      for (int lane = 0; lane < kLanes; ++lane) top = fmaxf(top, wide(x.at[lane]));
      raise(mine, top);
#pragma unroll
      for (int lane = 0; lane < kLanes; ++lane) add(mine, wide(x.at[lane]));
    }
  } else {
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
      raise(mine, wide(row[i]));
      add(mine, wide(row[i]));
    }
  }
  __shared__ Sums of_warps[32];
  mine = joined_over_warp(mine);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  mine = threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : Sums{lowest(), 0.0f};
  mine = joined_over_warp(mine);
  if (threadIdx.x != 0) return;
  maximum[blockIdx.x] = mine.top;
  exponentials[blockIdx.x] = mine.sum;
  const i64 column = labels[blockIdx.x] - first;
  of_label[blockIdx.x] = column >= 0 && column < width ? wide(row[column]) : 0.0f;
}

// `out` may be `logits`: a thread reads an element before it overwrites it, and no other thread
// reads that element.
AM_KERNEL cross_entropy_gradient(Scalar* out, const Scalar* logits, const float* sums,
                                 const i64* labels, const float* factor, i64 width, i64 first,
                                 i64 ignored) {
  const Scalar* row = logits + blockIdx.x * width;
  Scalar* to = out + blockIdx.x * width;
  const i64 label = labels[blockIdx.x];
  const i64 column = label - first;
  const float sum = sums[blockIdx.x];
  const float scale = *factor;
  const bool counts = label != ignored;
  const auto gradient = [&](Scalar x, i64 i) {
    const float softmax = expf(wide(x) - sum);
    return narrow(counts ? (i == column ? softmax - 1.0f : softmax) * scale : 0.0f);
  };
  if (in_packs(row, width) && in_packs(to, width)) {
    for (i64 i = threadIdx.x * kLanes; i < width; i += blockDim.x * kLanes) {
      Pack x = pack(row + i);
#pragma unroll
      for (int lane = 0; lane < kLanes; ++lane) x.at[lane] = gradient(x.at[lane], i + lane);
      pack(to + i) = x;
    }
  } else {
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) to[i] = gradient(row[i], i);
  }
}
