#include "am/nn/fused/clamped.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/tensors.h"

namespace am::nn::fused {

namespace {

// ---- loading and storing: gate and up are interleaved in memory, and separate in registers

template <typename Lanes>
struct Pairs {
  Lanes gate, up;
};

template <typename Lanes, size_t... I>
AM_INLINE std::pair<Lanes, Lanes> apart(const Lanes& low, const Lanes& high,
                                        std::index_sequence<I...> /*lanes*/) {
  return {__builtin_shufflevector(low, high, (2 * I)...),
          __builtin_shufflevector(low, high, (2 * I + 1)...)};
}

template <typename Lanes, size_t... I>
AM_INLINE std::pair<Lanes, Lanes> together(const Lanes& even, const Lanes& odd,
                                           std::index_sequence<I...> /*lanes*/) {
  constexpr size_t kHalf = sizeof...(I) / 2;
  constexpr size_t kOdd = sizeof...(I);
  return {__builtin_shufflevector(even, odd, (I / 2 + I % 2 * kOdd)...),
          __builtin_shufflevector(even, odd, (kHalf + I / 2 + I % 2 * kOdd)...)};
}

template <typename Lanes>
using LaneNumbers = std::make_index_sequence<kCountOf<Lanes>>;

// Lanes of the two vectors that together hold the interleaved gate and up elements of `part`:
// first_of() returns the lanes used in the first vector, second_of() those used in the second.
template <typename Scalar, int kBytes>
AM_INLINE First<kBytes> first_of(First<kBytes> part) {
  return {std::min<int64_t>(2 * part.count, kLanes<Scalar, kBytes>)};
}
template <typename Scalar, int kBytes>
AM_INLINE First<kBytes> second_of(First<kBytes> part) {
  return {std::max<int64_t>(2 * part.count - kLanes<Scalar, kBytes>, 0)};
}
template <typename Scalar, int kBytes>
AM_INLINE All<kBytes> first_of(All<kBytes> part) {
  return part;
}
template <typename Scalar, int kBytes>
AM_INLINE All<kBytes> second_of(All<kBytes> part) {
  return part;
}

template <typename Scalar, template <int> typename Part, int kBytes>
AM_INLINE Pairs<Vector<Scalar, kBytes>> load_pairs(const Scalar* from, Part<kBytes> part) {
  using Lanes = Vector<Scalar, kBytes>;
  const Lanes low = load(from, first_of<Scalar>(part));
  const Lanes high = load(from + kCountOf<Lanes>, second_of<Scalar>(part));
  const auto [gate, up] = apart(low, high, LaneNumbers<Lanes>());
  return {gate, up};
}

template <typename Scalar, typename Lanes, typename Part>
AM_INLINE void store_pairs(Scalar* to, Part part, const Pairs<Lanes>& pairs) {
  const auto [low, high] = together(pairs.gate, pairs.up, LaneNumbers<Lanes>());
  store(to, first_of<Scalar>(part), low);
  store(to + kCountOf<Lanes>, second_of<Scalar>(part), high);
}

// ---- the activation

template <typename Scalar>
struct Limits {
  Wide<Scalar> alpha, limit;
};

// Returns the smaller of x and `limit`; NaN stays NaN.
template <typename Lanes, typename Number>
AM_INLINE Lanes at_most(const Lanes& x, Number limit) {
  return x > limit ? Lanes{} + limit : x;
}
template <typename Lanes, typename Number>
AM_INLINE Lanes at_least(const Lanes& x, Number limit) {
  return x < limit ? Lanes{} + limit : x;
}

template <typename Scalar>
struct ClampedPairs {
  template <int kBytes>
  AM_INLINE static void run(Scalar* y, const Scalar* pairs, Limits<Scalar> limits, int64_t count) {
    using Lanes = Vector<Scalar, kBytes>;
    for_lanes<Scalar, kBytes>(count, [&](int64_t i, auto part) AM_LANES {
      const Pairs<Lanes> x = load_pairs(pairs + 2 * i, part);
      const Lanes g = at_most(x.gate, limits.limit);
      const Lanes u = at_least(at_most(x.up, limits.limit), -limits.limit);
      const Lanes turned = -limits.alpha * g;
      store(y + i, part, static_cast<Lanes>((u + 1) * (g / (1 + exponential(turned)))));
    });
  }
};

template <typename Scalar>
struct ClampedPairsBackward {
  template <int kBytes>
  AM_INLINE static void run(Scalar* of_pairs, const Scalar* gradient, const Scalar* pairs,
                            Limits<Scalar> limits, int64_t count) {
    using Lanes = Vector<Scalar, kBytes>;
    for_lanes<Scalar, kBytes>(count, [&](int64_t i, auto part) AM_LANES {
      const Pairs<Lanes> x = load_pairs(pairs + 2 * i, part);
      const Lanes of_y = load(gradient + i, part);
      const Lanes g = at_most(x.gate, limits.limit);
      const Lanes u = at_least(at_most(x.up, limits.limit), -limits.limit);
      const Lanes turned = -limits.alpha * g;
      const Lanes s = 1 / (1 + exponential(turned));
      const Lanes of_g = of_y * (u + 1) * s * (1 + limits.alpha * g * (1 - s));
      const Lanes of_u = of_y * g * s;
      const Lanes none = {};
      store_pairs(of_pairs + 2 * i, part,
                  Pairs<Lanes>{x.gate > limits.limit ? none : of_g,
                               (x.up > limits.limit) | (x.up < -limits.limit) ? none : of_u});
    });
  }
};

template <typename Scalar>
Limits<Scalar> limits_of(const Clamp& clamp) {
  return {static_cast<Wide<Scalar>>(clamp.alpha), static_cast<Wide<Scalar>>(clamp.limit)};
}

struct Wides {
  at::Tensor gate, up;             // values before clamping
  at::Tensor clamped_gate, share;  // min(gate, limit), and sigmoid(alpha * clamped_gate)
  at::Tensor raised;               // clamped up + 1
};

Wides wides_of(const at::Tensor& pairs_R2F, const Clamp& clamp) {
  const at::Tensor pairs = pairs_R2F.to(wide_dtype(pairs_R2F.scalar_type())).unflatten(-1, {-1, 2});
  Wides wides;
  wides.gate = pairs.select(-1, 0);
  wides.up = pairs.select(-1, 1);
  wides.clamped_gate = wides.gate.clamp_max(clamp.limit);
  wides.share = (wides.clamped_gate * clamp.alpha).sigmoid_();
  wides.raised = wides.up.clamp(-clamp.limit, clamp.limit).add_(1);
  return wides;
}

}  // namespace

at::Tensor clamped(const at::Tensor& pairs_R2F, const Clamp& clamp) {
  const at::NoGradGuard no_grad;
  const at::Tensor dense = pairs_R2F.contiguous();
  if (!has_kernels(dense)) {
    const Wides wides = wides_of(dense, clamp);
    return (wides.raised * wides.clamped_gate * wides.share).to(dense.scalar_type());
  }
  at::Tensor y = at::empty({dense.size(0), dense.size(1) / 2}, dense.options());
  if (y.is_meta()) return y;
  visit_dtype(y.scalar_type(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    for_rows(y.numel(), 1, [&](int64_t begin, int64_t end) {
      run_kernel<ClampedPairs<Scalar>>(y.mutable_data_ptr<Scalar>() + begin,
                                       dense.const_data_ptr<Scalar>() + 2 * begin,
                                       limits_of<Scalar>(clamp), end - begin);
    });
  });
  return y;
}

at::Tensor clamped_gradient(const at::Tensor& gradient_RF, const at::Tensor& pairs_R2F,
                            const Clamp& clamp) {
  const at::NoGradGuard no_grad;
  const at::Tensor dense = pairs_R2F.contiguous(), gradient = gradient_RF.contiguous();
  if (!has_kernels(dense)) {
    const Wides wides = wides_of(dense, clamp);
    const at::Tensor turned = wides.clamped_gate * clamp.alpha * (1 - wides.share) + 1;
    const at::Tensor of_gate = gradient * wides.raised * wides.share * turned;
    const at::Tensor of_up = gradient * wides.clamped_gate * wides.share;
    return at::stack({of_gate.masked_fill(wides.gate.gt(clamp.limit), 0.0),
                      of_up.masked_fill(wides.up.abs().gt(clamp.limit), 0.0)},
                     -1)
        .view_as(dense)
        .to(dense.scalar_type());
  }
  at::Tensor of_pairs = at::empty_like(dense);
  if (of_pairs.is_meta()) return of_pairs;
  visit_dtype(dense.scalar_type(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    for_rows(gradient.numel(), 1, [&](int64_t begin, int64_t end) {
      run_kernel<ClampedPairsBackward<Scalar>>(of_pairs.mutable_data_ptr<Scalar>() + 2 * begin,
                                               gradient.const_data_ptr<Scalar>() + begin,
                                               dense.const_data_ptr<Scalar>() + 2 * begin,
                                               limits_of<Scalar>(clamp), end - begin);
    });
  });
  return of_pairs;
}

}  // namespace am::nn::fused
