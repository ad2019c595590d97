// Sums of rows, see tensor::GpuKernels. A block of threads computes a row.

// Sets row n of `sum` to the sum of the rows slot[n][0], slot[n][1], .. of `rows`, plus row n of
// `added` if it is not null. Adds in this order and rounds once.
template <int kWidth>
__device__ __forceinline__ void add_rows(Scalar* sum, const Scalar* rows, const i64* slot,
                                         const Scalar* added, i64 width, int top_k) {
  const i64 n = blockIdx.x;
  for (i64 i = threadIdx.x * kWidth; i < width; i += blockDim.x * kWidth) {
    float total[kWidth] = {};
    const auto add = [&](const Scalar* row) {
      const Group<kWidth> one = group<kWidth>(row + i);
#pragma unroll
      for (int lane = 0; lane < kWidth; ++lane) total[lane] += wide(one.at[lane]);
    };
    for (int j = 0; j < top_k; ++j) add(rows + slot[n * top_k + j] * width);
    if (added != nullptr) add(added + n * width);
    Group<kWidth> out;
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) out.at[lane] = narrow(total[lane]);
    store<kWidth>(sum + n * width + i, out);
  }
}

AM_KERNEL sum_of_rows(Scalar* sum, const Scalar* rows, const i64* slot, const Scalar* added,
                      i64 width, int top_k) {
  add_rows<kLanes>(sum, rows, slot, added, width, top_k);
}

// Processes single elements, for rows that do not consist of whole, aligned packs of 16 bytes.
AM_KERNEL sum_of_rows_by_one(Scalar* sum, const Scalar* rows, const i64* slot, const Scalar* added,
                             i64 width, int top_k) {
  add_rows<1>(sum, rows, slot, added, width, top_k);
}
