// Rotary position embedding, see tensor::GpuKernels. A block of threads rotates all heads of a
// position.

// One of the two rotated tensors; `heads` is 0 if there is none. Head h at position t of sequence b
// begins at x + b * stride_b + t * stride_t + h * stride_h. The output y is [B, T, H, width].
struct Heads {
  Scalar* y;
  const Scalar* x;
  i64 heads, stride_b, stride_t, stride_h;
};

// `cosine` and `sine` have `turned` columns, the number of rotated elements of a head. They have
// one row per position of the sequence, or one per position of every sequence if `of_batch`. A sign
// of -1 inverts the rotation.
AM_KERNEL rotate(Heads one, Heads two, const Scalar* cosine, const Scalar* sine, i64 length,
                 i64 width, i64 turned, int of_batch, float sign) {
  const i64 row = blockIdx.x, b = row / length, t = row % length, half = turned / 2;
  const i64 table = (of_batch ? row : t) * turned;
  const u32 pairs = half / kLanes, rest = (width - turned) / kLanes, packs = pairs + rest;
  const u32 heads = one.heads + two.heads;
  for (u32 i = threadIdx.x; i < heads * packs; i += blockDim.x) {  // 32-bit division is faster
    const u32 of_both = i / packs, k = i % packs;
    const bool first_one = of_both < one.heads;
    const Heads& of = first_one ? one : two;
    const i64 head = first_one ? of_both : of_both - one.heads;
    const Scalar* source = of.x + b * of.stride_b + t * of.stride_t + head * of.stride_h;
    Scalar* target = of.y + (row * of.heads + head) * width;
    if (k >= pairs) {
      const i64 at = turned + i64(k - pairs) * kLanes;
      pack(target + at) = pack(source + at);
      continue;
    }
    const i64 at = i64(k) * kLanes;
    const Pack first = pack(source + at), second = pack(source + half + at);
    const Pack c = pack(cosine + table + at), s = pack(sine + table + at);
    Pack low, high;
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      const float u = wide(first.at[lane]), v = wide(second.at[lane]);
      const float cos = wide(c.at[lane]), sin = wide(s.at[lane]) * sign;
      low.at[lane] = narrow(u * cos - v * sin);
      high.at[lane] = narrow(v * cos + u * sin);
    }
    pack(target + at) = low;
    pack(target + half + at) = high;
  }
}
