// Key/value cache for generation: the decoder computes only the new tokens of a growing sequence.
//
//   KeyValueCache cache(decoder, 2048);
//   at::Tensor logits = decoder(prompt_BT);            // of all positions
//   cache.keep(prompt_BT.size(1));
//   logits = decoder(at::cat({prompt_BT, next_B1}, 1));  // [B, 1, V]: of the last one
//
// Uses the seam of context parallelism: the decoder receives whole sequences and computes a part of
// their positions (SequencePart); attention's core holds the keys of the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "am/nn/decoder.h"

namespace am::nn {

class KeyValueCache {
 public:
  // For sequences of at most `capacity` positions. The decoder must hold whole sequences (no
  // context parallelism, no sequence shards), outlive this object, and run without a graph
  // meanwhile.
  KeyValueCache(Decoder& decoder, int64_t capacity);
  // Restores the decoder.
  ~KeyValueCache();
  KeyValueCache(const KeyValueCache&) = delete;
  KeyValueCache& operator=(const KeyValueCache&) = delete;

  // Declares that the next sequences begin with the first `length` positions computed so far:
  // forward passes compute only what follows. 0: compute everything. RoPE must give the same angles
  // at both sequence lengths (Decoder::turns_alike).
  void keep(int64_t length);

 private:
  struct Layer {
    at::Tensor k_BGCK, v_BGCV;  // C: capacity
  };

  at::Tensor attend(Layer& layer, const Qkv& heads, const AttentionParams& params,
                    const std::optional<at::Tensor>& sinks_H) const;

  Decoder& decoder_;
  int64_t capacity_;
  int64_t kept_ = 0;
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace am::nn
