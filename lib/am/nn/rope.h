// Rotary position embedding: frequencies by the config's rope type, and the rotation.
//
// Half-split pairing as in Hugging Face's Llama: dimension i turns with i + K/2.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/model/config.h"

namespace am::nn {

// [K/2] angles per position, float32, on the host: the same bits for every device. "linear" divides
// all by `factor`; "llama3" divides those whose wavelength exceeds original_max_position_embeddings
// / low_freq_factor, keeps those below / high_freq_factor, and blends between (Llama 3.1's
// long-context scaling).
at::Tensor rope_inverse_frequencies(const model::RopeConfig& rope, int64_t head_dim);

struct Rotation {
  at::Tensor cos_TK;
  at::Tensor sin_TK;
};

// For positions first .. first + count - 1, on the device of the frequencies.
Rotation make_rotation(const at::Tensor& inverse_frequencies, int64_t first, int64_t count,
                       at::ScalarType dtype);

// x_BHTK, rotated.
at::Tensor rotate(const at::Tensor& x_BHTK, const Rotation& rotation);

}  // namespace am::nn
