// Rotary position embedding: frequencies by the config's rope type, and the rotation.
//
// As in Hugging Face's Llama, elements i and i + R/2 of a head's R rotated elements form a pair.
// Families that pair adjacent elements reorder the elements first (pairs_to_halves). Legend: B
// batch, T positions, H heads, K elements of a head.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "am/model/config.h"

namespace am::nn {

// Returns the angle, in radians, by which each pair turns from one position to the next: [R/2] with
// R = `rotated`, the number of rotated elements of a head. The result is float32 and on the host,
// so that all devices use equal bits. The wavelength of an angle is 2 pi / angle, the number of
// positions of a full turn. The original length is original_max_position_embeddings. The type
// `default` uses the angles theta^(-2i/R); other types scale them:
//   linear    divides all angles by `factor`.
//   llama3    divides an angle by `factor` if the wavelength exceeds the original length /
//             low_freq_factor, keeps the angle if the wavelength is below the original length /
//             high_freq_factor, and blends both results in between.
//   yarn      divides an angle by `factor` if the pair turns fewer than beta_slow times within the
//             original length, keeps the angle if the pair turns more than beta_fast times, and
//             blends both results in between.
//   longrope  divides each angle by its factor from a list: long_factor if `seq_len` exceeds the
//             original length, otherwise short_factor.
at::Tensor rope_inverse_frequencies(const model::RopeConfig& rope, int64_t rotated,
                                    int64_t seq_len = 0);

// Tables of cosines and sines for positions: [T, R] if positions are equal in all sequences of the
// batch, otherwise [B, T, R]. The first R elements of a head are rotated. If the tables are
// undefined, the layer's heads are not rotated.
struct Rotation {
  at::Tensor cos_TK;
  at::Tensor sin_TK;
  // Document index of each token in packed sequences, int64 (see documents()). Covers whole
  // sequences, even if this rank computes only a part of each sequence. Undefined if each sequence
  // is one document.
  at::Tensor document_BT = {};
  // Result of document_starts(), or null (AttentionParams::document_starts).
  std::shared_ptr<const std::vector<int64_t>> document_starts = {};
};

// Returns the tables [count, R] for positions first .. first + count - 1, in `dtype`, on the device
// of the frequencies. Cosines and sines are multiplied by `factor` (model::attention_factor).
Rotation make_rotation(const at::Tensor& inverse_frequencies, int64_t first, int64_t count,
                       at::ScalarType dtype, double factor = 1.0);

// Returns the tables for `positions` (int64, [B, T] or [T]). Each position must be smaller than the
// number of positions in `table`.
Rotation gather_rotation(const Rotation& table, const at::Tensor& positions);

// Returns the document index of each token in its sequence, int64 [B, T]. Each position 0 begins a
// document; the first document has index 1.
at::Tensor documents(const at::Tensor& positions_BT);
// Returns the indices b * T + t at which documents and sequences begin, in ascending order.
// positions_BT (int64) must be on the host.
std::vector<int64_t> document_starts(const at::Tensor& positions_BT);

// Returns x [.., K] with the first R = `rotated` elements of the last dim reordered: elements 2i
// and 2i + 1 become elements i and i + R/2. If both queries and keys are reordered, their dot
// products do not change.
at::Tensor pairs_to_halves(const at::Tensor& x, int64_t rotated);

// Returns x_BHTK rotated, or x_BHTK itself if the rotation's tables are undefined.
at::Tensor rotate(const at::Tensor& x_BHTK, const Rotation& rotation);

}  // namespace am::nn
