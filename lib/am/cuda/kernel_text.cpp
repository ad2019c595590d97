#include "am/cuda/kernel_text.h"

#include "am/base/normal_math.h"
#include "am/base/text.h"

namespace am::cuda {
namespace {

// Source of the type `Scalar`, which is bfloat16 if AM_BFLOAT16 is 1, and float32 if it is 0. NVRTC
// has no headers, so all kernels use built-in functions only. They read and write memory in
// packs of 16 bytes, and compute in float32.
const char* const kScalarText = R"cuda(
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#if AM_BFLOAT16
struct Scalar { u16 bits; };
__device__ __forceinline__ float wide(Scalar x) { return __uint_as_float(u32(x.bits) << 16); }
__device__ __forceinline__ Scalar narrow(float x) {
  Scalar y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
#else
typedef float Scalar;
__device__ __forceinline__ float wide(Scalar x) { return x; }
__device__ __forceinline__ Scalar narrow(float x) { return x; }
#endif

constexpr int kLanes = 16 / sizeof(Scalar);
struct alignas(16) Pack { Scalar at[kLanes]; };
__device__ __forceinline__ const Pack& pack(const Scalar* x) { return *reinterpret_cast<const Pack*>(x); }
__device__ __forceinline__ Pack& pack(Scalar* x) { return *reinterpret_cast<Pack*>(x); }
)cuda";

const char* const kOperatorText = R"cuda(
// ---- cross-entropy: a block of threads per row

__device__ __forceinline__ float lowest() { return __int_as_float(0xff800000); }  // -inf

struct Sums { float top, sum; };  // sum of e^(x - top)

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
    s = joined(s, {__shfl_xor_sync(0xffffffff, s.top, apart), __shfl_xor_sync(0xffffffff, s.sum, apart)});
  }
  return s;
}

__device__ __forceinline__ bool in_packs(const Scalar* row, i64 width) {
  return width % kLanes == 0 && reinterpret_cast<u64>(row) % sizeof(Pack) == 0;
}

extern "C" __global__ void logit_sums(float* maximum, float* exponentials, float* of_label, const Scalar* logits,
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

// `out` may be `logits`: a thread reads an element before it writes it, and no other does.
extern "C" __global__ void cross_entropy_gradient(Scalar* out, const Scalar* logits, const float* sums,
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

// ---- gated activations: a thread per pack

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

struct Silu {
  __device__ static float value(float g) { return g * sigmoid(g); }
  __device__ static float backward(float of_value, float g) {
    const float s = sigmoid(g);
    return of_value * s * (1.0f + g * (1.0f - s));
  }
};

struct GeluTanh {
  static constexpr float kTwice = 2.0 * 0.79788456080286536, kCube = 0.044715;
  __device__ static float curve(float g) { return sigmoid(kTwice * (g + kCube * g * g * g)); }
  __device__ static float value(float g) { return g * curve(g); }
  __device__ static float backward(float of_value, float g) {
    const float s = curve(g);
    return of_value * (s + g * s * (1.0f - s) * kTwice * (1.0f + 3.0f * kCube * g * g));
  }
};

struct GeluErf {
  __device__ static float share(float g) { return 0.5f * (1.0f + erff(g * 0.70710678118654752f)); }
  __device__ static float value(float g) { return g * share(g); }
  __device__ static float backward(float of_value, float g) {
    return of_value * (share(g) + g * 0.39894228040143268f * expf(-0.5f * g * g));
  }
};

template <class Act>
__device__ __forceinline__ Scalar gated_one(Scalar gate, Scalar up) {
  return narrow(wide(narrow(Act::value(wide(gate)))) * wide(up));
}

// Values are rounded where the separate operators round them.
template <class Act>
__device__ __forceinline__ void gradients_of_one(Scalar& of_gate, Scalar& of_up, Scalar of_y, Scalar gate, Scalar up) {
  const float g = wide(gate);
  const Scalar of_active = narrow(wide(of_y) * wide(up));
  of_up = narrow(wide(of_y) * wide(narrow(Act::value(g))));
  of_gate = narrow(Act::backward(wide(of_active), g));
}

template <class Act>
__device__ __forceinline__ void gated(Scalar* y, const Scalar* gate, const Scalar* up, i64 count) {
  const i64 i = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * kLanes;
  if (i + kLanes <= count) {
    const Pack g = pack(gate + i), u = pack(up + i);
    Pack out;
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) out.at[lane] = gated_one<Act>(g.at[lane], u.at[lane]);
    pack(y + i) = out;
  } else {
    for (i64 one = i; one < count; ++one) y[one] = gated_one<Act>(gate[one], up[one]);
  }
}

template <class Act>
__device__ __forceinline__ void gated_gradients(Scalar* of_gate, Scalar* of_up, const Scalar* of_y, const Scalar* gate,
                                                const Scalar* up, i64 count) {
  const i64 i = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * kLanes;
  if (i + kLanes <= count) {
    const Pack d = pack(of_y + i), g = pack(gate + i), u = pack(up + i);
    Pack to_gate, to_up;
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      gradients_of_one<Act>(to_gate.at[lane], to_up.at[lane], d.at[lane], g.at[lane], u.at[lane]);
    }
    pack(of_gate + i) = to_gate;
    pack(of_up + i) = to_up;
  } else {
    for (i64 one = i; one < count; ++one) {
      gradients_of_one<Act>(of_gate[one], of_up[one], of_y[one], gate[one], up[one]);
    }
  }
}

#define AM_GATED(name, Act)                                                                                          \
  extern "C" __global__ void gated_##name(Scalar* y, const Scalar* gate, const Scalar* up, i64 count) {              \
    gated<Act>(y, gate, up, count);                                                                                  \
  }                                                                                                                  \
  extern "C" __global__ void gated_gradients_##name(Scalar* of_gate, Scalar* of_up, const Scalar* of_y,              \
                                                    const Scalar* gate, const Scalar* up, i64 count) {               \
    gated_gradients<Act>(of_gate, of_up, of_y, gate, up, count);                                                     \
  }
AM_GATED(silu, Silu)
AM_GATED(gelu_tanh, GeluTanh)
AM_GATED(gelu_erf, GeluErf)

// ---- rotary position embedding: a block of threads per position

// x: heads at b * stride_b + t * stride_t + h * stride_h; y [B, T, H, width]. The tables have `turned` columns and a row
// per position: of the batch if `of_batch`, else of the sequence. sign -1 inverts the rotation.
extern "C" __global__ void rotate(Scalar* y, const Scalar* x, const Scalar* cosine, const Scalar* sine, i64 length,
                                  i64 heads, i64 width, i64 turned, i64 stride_b, i64 stride_t, i64 stride_h,
                                  int of_batch, float sign) {
  const i64 row = blockIdx.x, b = row / length, t = row % length, half = turned / 2;
  const i64 table = (of_batch ? row : t) * turned;
  const i64 pairs = half / kLanes, rest = (width - turned) / kLanes, packs = pairs + rest;
  const Scalar* from = x + b * stride_b + t * stride_t;
  Scalar* to = y + row * heads * width;
  for (i64 i = threadIdx.x; i < heads * packs; i += blockDim.x) {
    const i64 head = i / packs, k = i % packs;
    const Scalar* source = from + head * stride_h;
    Scalar* target = to + head * width;
    if (k >= pairs) {
      const i64 at = turned + (k - pairs) * kLanes;
      pack(target + at) = pack(source + at);
      continue;
    }
    const i64 at = k * kLanes;
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
)cuda";

const char* const kDrawText = R"cuda(
struct Box { i64 shape[4], offset[4], stride[4]; };

struct Words { u32 at[4]; };

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
extern "C" __global__ void draw(Scalar* out, Box box, i64 count, u64 key, u64 stream, int normal, float scale) {
  const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  i64 index = 0, left = i;
#pragma unroll
  for (int dim = 3; dim >= 0; --dim) {
    index += (box.offset[dim] + left % box.shape[dim]) * box.stride[dim];
    left /= box.shape[dim];
  }
  const Words words = philox(key, u64(index) / 4, stream);
  const int lane = int(index % 4);
  if (normal) {
    const NormalPair pair = normal_pair(words.at[lane / 2 * 2], words.at[lane / 2 * 2 + 1]);
    out[i] = narrow(0.0f + scale * (lane % 2 == 0 ? pair.first : pair.second));
  } else {
    const float unit = 2.0f * (1.0f / 16777216.0f) * float(words.at[lane] >> 8) - 1.0f;
    out[i] = narrow(scale * unit);
  }
}
)cuda";

}  // namespace

std::string operator_text() { return cat(kScalarText, kOperatorText); }

std::string draw_text() { return cat(kScalarText, kNormalMathText, "\n", kDrawText); }

std::vector<std::string> compile_options(int architecture, bool bfloat16) {
  return {cat("--gpu-architecture=sm_", architecture), "--std=c++17",
          "--device-as-default-execution-space",
          "-DAM_UNCONTRACTED=", cat("-DAM_BFLOAT16=", bfloat16 ? 1 : 0)};
}

}  // namespace am::cuda
