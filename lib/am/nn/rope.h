// Rotary position embedding: frequencies by the config's rope type, and the rotation.
//
// Half-split pairing as in Hugging Face's Llama: a head's rotated elements i and i + R/2 form a
// pair. Families that pair adjacent elements reorder them first (pairs_to_halves).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "am/model/config.h"

namespace am::nn {

// Returns the angles per position, [R/2] with R = `rotated`, the number of rotated elements of a
// head: float32, on the host, so that all devices get equal bits. The rope type scales the angles:
//   linear    divides all angles by `factor`.
//   llama3    divides angles by `factor` if their wavelength exceeds
//             original_max_position_embeddings / low_freq_factor, keeps them if it is below
//             original_max_position_embeddings / high_freq_factor, and blends in between.
//   yarn      divides angles that turn fewer than beta_slow times within the original length by
//             `factor`, keeps those that turn more than beta_fast times, and blends in between.
//   longrope  divides each angle by a factor from one of two lists. The list depends on whether
//             `seq_len` exceeds the original length.
at::Tensor rope_inverse_frequencies(const model::RopeConfig& rope, int64_t rotated,
                                    int64_t seq_len = 0);

// Cosine and sine tables for positions: [T, R] if positions are equal in all sequences of the
// batch, otherwise [B, T, R]. The first R elements of a head are rotated. Undefined tables mean
// that the layer's heads are not rotated.
struct Rotation {
  at::Tensor cos_TK;
  at::Tensor sin_TK;
  // Document index of each token (int64) in packed sequences. Covers whole sequences even if this
  // rank computes a part of each. Undefined if each sequence is one document.
  at::Tensor document_BT = {};
  // Rows of [B * T] at which documents begin (AttentionParams::document_starts).
  std::shared_ptr<const std::vector<int64_t>> document_starts = {};
};

// Returns the tables for positions first .. first + count - 1, on the device of the frequencies.
// `factor` multiplies cosine and sine (model::attention_factor).
Rotation make_rotation(const at::Tensor& inverse_frequencies, int64_t first, int64_t count,
                       at::ScalarType dtype, double factor = 1.0);

// Returns the tables for `positions` (int64, [B, T] or [T]), each of which is below `table`'s
// length.
Rotation gather_rotation(const Rotation& table, const at::Tensor& positions);

// Returns the document index of each token, int64. Each position 0 begins a document.
at::Tensor documents(const at::Tensor& positions_BT);
// Returns the rows of [B * T] at which documents and sequences begin. positions_BT must be on the
// host.
std::vector<int64_t> document_starts(const at::Tensor& positions_BT);

// Returns x_..K with its first R = `rotated` elements reordered, so that elements 2i and 2i + 1
// become i and i + R/2. If queries and keys are both reordered, their dot products do not change.
at::Tensor pairs_to_halves(const at::Tensor& x, int64_t rotated);

// Returns x_BHTK rotated; unchanged if the rotation is undefined.
at::Tensor rotate(const at::Tensor& x_BHTK, const Rotation& rotation);

}  // namespace am::nn
