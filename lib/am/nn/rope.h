// Rotary position embedding: frequencies by the config's rope type, and the rotation.
//
// Half-split pairing as in Hugging Face's Llama: dimension i turns with i + K/2.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "am/model/config.h"

namespace am::nn {

// [R/2] angles per position, of the `rotated` elements of a head, float32, on the host: the same
// bits for every device. "linear" divides all by `factor`; "llama3" divides those whose wavelength
// exceeds original_max_position_embeddings / low_freq_factor, keeps those below / high_freq_factor,
// and blends between (Llama 3.1's long-context scaling); "yarn" blends between those that turn
// beta_fast and beta_slow times within the original length; "longrope" divides each by its own
// factor, for sequences of `seq_len` positions that are longer than the original, or not.
at::Tensor rope_inverse_frequencies(const model::RopeConfig& rope, int64_t rotated,
                                    int64_t seq_len = 0);

// Of positions of a sequence [T, R], or of each sequence of a batch [B, T, R]: the first R of a
// head turn. Undefined where a layer does not rotate.
struct Rotation {
  at::Tensor cos_TK;
  at::Tensor sin_TK;
  // The document of each token (int64), where sequences are packed, and of each of the sequence
  // where this rank has a part of it. Undefined: one document.
  at::Tensor document_BT = {};
  // See Look::document_starts.
  std::shared_ptr<const std::vector<int64_t>> document_starts = {};
};

// For positions first .. first + count - 1, on the device of the frequencies. `factor`: of cosine
// and sine (model::attention_factor).
Rotation make_rotation(const at::Tensor& inverse_frequencies, int64_t first, int64_t count,
                       at::ScalarType dtype, double factor = 1.0);

// The same for positions (int64) [B, T] or [T], each below `table`'s length.
Rotation gather_rotation(const Rotation& table, const at::Tensor& positions);

// The number of each token's document, int64: a document begins at each position 0.
at::Tensor documents(const at::Tensor& positions_BT);
// The rows of [B * T] at which they and the sequences begin. positions_BT is on the host.
std::vector<int64_t> document_starts(const at::Tensor& positions_BT);

// x_BHTK, rotated; as it is where the rotation is undefined.
at::Tensor rotate(const at::Tensor& x_BHTK, const Rotation& rotation);

}  // namespace am::nn
