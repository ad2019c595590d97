// Gated activations, see tensor::GpuKernels. A thread computes a pack of 16 bytes.

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

// Rounds values where separate operators for the activation and for the multiplication by `up`
// would round them.
template <class Act>
__device__ __forceinline__ void gradients_of_one(Scalar& of_gate, Scalar& of_up, Scalar of_y,
                                                 Scalar gate, Scalar up) {
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
__device__ __forceinline__ void gated_gradients(Scalar* of_gate, Scalar* of_up, const Scalar* of_y,
                                                const Scalar* gate, const Scalar* up, i64 count) {
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

#define AM_GATED(name, Act)                                                            \
  AM_KERNEL gated_##name(Scalar* y, const Scalar* gate, const Scalar* up, i64 count) { \
    gated<Act>(y, gate, up, count);                                                    \
  }                                                                                    \
  AM_KERNEL gated_gradients_##name(Scalar* of_gate, Scalar* of_up, const Scalar* of_y, \
                                   const Scalar* gate, const Scalar* up, i64 count) {  \
    gated_gradients<Act>(of_gate, of_up, of_y, gate, up, count);                       \
  }
AM_GATED(silu, Silu)
AM_GATED(gelu_tanh, GeluTanh)
AM_GATED(gelu_erf, GeluErf)
#undef AM_GATED
