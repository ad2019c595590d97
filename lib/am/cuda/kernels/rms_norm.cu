// RMSNorm, see tensor::GpuKernels. A team of threads computes one row at a time. A team is 1, 2, 4,
// 8, 16 or 32 lanes of a warp, or all threads of a block of whole warps. `of_width` is 1 / width.

// Number of groups of elements per row that a thread keeps in registers. The thread reads further
// groups from memory twice.
constexpr int kKept = 2;

// Returns the sum of x over the team's threads. All threads of the block call it, alternately with
// 0 and 1 as `turn`, because slow warps may still read the sums of the previous call.
__device__ __forceinline__ float sum_over_team(float x, int team, int turn) {
  const int lanes = team < 32 ? team : 32;
  for (int apart = lanes / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffff, x, apart);
  if (team <= 32) return x;
  __shared__ float of_warps[2][32];
  if (threadIdx.x % 32 == 0) of_warps[turn][threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x % 32 < blockDim.x / 32 ? of_warps[turn][threadIdx.x % 32] : 0.0f;
  for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffff, x, apart);
  return x;
}

// Values of model::NormKind.
constexpr int kRms = 0, kRmsPlusOne = 2;

__device__ __forceinline__ float scale_of(Scalar weight, int kind) {
  return kind == kRmsPlusOne ? 1.0f + wide(weight) : wide(weight);
}
// Rounds normalised values before they are multiplied by the weight, if the kind is kRms.
__device__ __forceinline__ float before_scale(float normal, int kind) {
  return kind == kRms ? wide(narrow(normal)) : normal;
}

// Normalises x, or x + residual if `residual` is not null; this sum is then written to `sum`.
template <int kWidth>
__device__ __forceinline__ void normalize(Scalar* y, float* inverse, Scalar* sum, const Scalar* x,
                                          const Scalar* residual, const Scalar* weight, i64 rows,
                                          i64 width, float of_width, float eps, int team,
                                          int kind) {
  const i64 row = i64(blockIdx.x) * (blockDim.x / team) + threadIdx.x / team;
  const bool here = row < rows;
  const i64 at = row * width, step = i64(team) * kWidth, begin = threadIdx.x % team * kWidth;
  const Scalar* added = residual != nullptr ? sum : x;
  float squares = 0.0f;
  const auto given = [&](i64 i) {
    Group<kWidth> h = group<kWidth>(x + at + i);
    if (residual != nullptr) {
      const Group<kWidth> r = group<kWidth>(residual + at + i);
#pragma unroll
      for (int lane = 0; lane < kWidth; ++lane) {
        h.at[lane] = narrow(wide(h.at[lane]) + wide(r.at[lane]));
      }
      store<kWidth>(sum + at + i, h);
    }
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) squares += wide(h.at[lane]) * wide(h.at[lane]);
    return h;
  };
  Group<kWidth> kept[kKept];
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    if (here && begin + k * step < width) kept[k] = given(begin + k * step);
  }
  for (i64 i = begin + kKept * step; here && i < width; i += step) given(i);
  const float scale = rsqrtf(sum_over_team(squares, team, 0) * of_width + eps);
  if (!here) return;
  if (begin == 0) inverse[row] = scale;
  const auto put = [&](i64 i, const Group<kWidth>& h) {
    const Group<kWidth> w = group<kWidth>(weight + i);
    Group<kWidth> out;
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) {
      const float normal = before_scale(wide(h.at[lane]) * scale, kind);
      out.at[lane] = narrow(normal * scale_of(w.at[lane], kind));
    }
    store<kWidth>(y + at + i, out);
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    if (begin + k * step < width) put(begin + k * step, kept[k]);
  }
  for (i64 i = begin + kKept * step; i < width; i += step) put(i, group<kWidth>(added + at + i));
}

AM_KERNEL rms_norm(Scalar* y, float* inverse, Scalar* sum, const Scalar* x, const Scalar* residual,
                   const Scalar* weight, i64 rows, i64 width, float of_width, float eps, int team,
                   int kind) {
  normalize<kLanes>(y, inverse, sum, x, residual, weight, rows, width, of_width, eps, team, kind);
}

// Processes single elements, for rows that do not consist of whole, aligned packs of 16 bytes.
AM_KERNEL rms_norm_by_one(Scalar* y, float* inverse, Scalar* sum, const Scalar* x,
                          const Scalar* residual, const Scalar* weight, i64 rows, i64 width,
                          float of_width, float eps, int team, int kind) {
  normalize<1>(y, inverse, sum, x, residual, weight, rows, width, of_width, eps, team, kind);
}

// Computes the gradients of `of_a_sum` consecutive rows per team. With n = x * inverse and g = of_y
// * scale_of(weight): of_x = inverse * (g - n * mean(g n)), plus of_sum if it is not null. Row t of
// `partial`, unless it is null, is the sum of of_y * n over the rows of team t.
template <int kWidth>
__device__ __forceinline__ void gradients(Scalar* of_x, float* partial, const Scalar* of_y,
                                          const Scalar* of_sum, const Scalar* x,
                                          const float* inverse, const Scalar* weight, i64 rows,
                                          i64 width, float of_width, int of_a_sum, int team,
                                          int kind) {
  const i64 number = i64(blockIdx.x) * (blockDim.x / team) + threadIdx.x / team;
  const i64 first = number * of_a_sum, step = i64(team) * kWidth;
  const i64 begin = threadIdx.x % team * kWidth;
  float* of_weight = partial + number * width;
  float sums[kKept][kWidth] = {};
  // All threads of a block run this loop equally often, because sum_over_team() has barriers.
  for (int r = 0; r < of_a_sum; ++r) {
    const i64 row = first + r, at = row * width;
    const bool here = row < rows;
    const float scale = here ? inverse[row] : 0.0f;
    Group<kWidth> h[kKept], d[kKept];
    float products = 0.0f;
    // Adds each element's g * n to `products`, and the element's term of the weight's gradient to
    // `terms`.
    const auto visit = [&](i64 i, const Group<kWidth>& x_, const Group<kWidth>& d_, float* terms) {
      const Group<kWidth> w = group<kWidth>(weight + i);
#pragma unroll
      for (int lane = 0; lane < kWidth; ++lane) {
        const float normal = wide(x_.at[lane]) * scale, of = wide(d_.at[lane]);
        products += of * scale_of(w.at[lane], kind) * normal;
        terms[lane] += of * before_scale(normal, kind);
      }
    };
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
      const i64 i = begin + k * step;
      if (!here || i >= width) continue;
      h[k] = group<kWidth>(x + at + i);
      d[k] = group<kWidth>(of_y + at + i);
      visit(i, h[k], d[k], sums[k]);
    }
    for (i64 i = begin + kKept * step; here && i < width; i += step) {
      float terms[kWidth] = {};
      visit(i, group<kWidth>(x + at + i), group<kWidth>(of_y + at + i), terms);
      if (partial == nullptr) continue;
#pragma unroll
      for (int lane = 0; lane < kWidth; ++lane) {
        of_weight[i + lane] = (r == 0 ? 0.0f : of_weight[i + lane]) + terms[lane];
      }
    }
    const float mean = sum_over_team(products, team, r % 2) * of_width;
    const auto put = [&](i64 i, const Group<kWidth>& x_, const Group<kWidth>& d_) {
      const Group<kWidth> w = group<kWidth>(weight + i);
      Group<kWidth> out, added;
      if (of_sum != nullptr) added = group<kWidth>(of_sum + at + i);
#pragma unroll
      for (int lane = 0; lane < kWidth; ++lane) {
        const float normal = wide(x_.at[lane]) * scale;
        const float of_normal = wide(d_.at[lane]) * scale_of(w.at[lane], kind);
        const float of = (of_normal - normal * mean) * scale;
        out.at[lane] = narrow(of_sum != nullptr ? of + wide(added.at[lane]) : of);
      }
      store<kWidth>(of_x + at + i, out);
    };
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
      if (here && begin + k * step < width) put(begin + k * step, h[k], d[k]);
    }
    for (i64 i = begin + kKept * step; here && i < width; i += step) {
      put(i, group<kWidth>(x + at + i), group<kWidth>(of_y + at + i));
    }
  }
  if (partial == nullptr || first >= rows) return;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const i64 i = begin + k * step;
    if (i >= width) continue;
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) of_weight[i + lane] = sums[k][lane];
  }
}

AM_KERNEL rms_norm_gradients(Scalar* of_x, float* partial, const Scalar* of_y, const Scalar* of_sum,
                             const Scalar* x, const float* inverse, const Scalar* weight, i64 rows,
                             i64 width, float of_width, int of_a_sum, int team, int kind) {
  gradients<kLanes>(of_x, partial, of_y, of_sum, x, inverse, weight, rows, width, of_width,
                    of_a_sum, team, kind);
}

AM_KERNEL rms_norm_gradients_by_one(Scalar* of_x, float* partial, const Scalar* of_y,
                                    const Scalar* of_sum, const Scalar* x, const float* inverse,
                                    const Scalar* weight, i64 rows, i64 width, float of_width,
                                    int of_a_sum, int team, int kind) {
  gradients<1>(of_x, partial, of_y, of_sum, x, inverse, weight, rows, width, of_width, of_a_sum,
               team, kind);
}

// Sums the rows of partial [sums, width]: a block computes 32 columns, and each of its 32 warps
// adds every 32nd row.
AM_KERNEL rms_norm_weight_gradient(Scalar* of_weight, const float* partial, i64 sums, i64 width) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const i64 column = i64(blockIdx.x) * 32 + lane;
  float sum = 0.0f;
  if (column < width) {
    for (i64 row = warp; row < sums; row += warps) sum += partial[row * width + column];
  }
  __shared__ float of_warps[32][32];
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  sum = 0.0f;
  for (int i = 0; i < warps; ++i) sum += of_warps[i][lane];
  of_weight[column] = narrow(sum);
}
