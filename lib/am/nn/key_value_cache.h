// Key/value cache for generation: the decoder computes only the new tokens of a growing sequence.
//
//   KeyValueCache cache(decoder, 2048);
//   at::Tensor logits = decoder(prompt_BT);            // of all positions
//   cache.keep(prompt_BT.size(1));
//   logits = decoder(at::cat({prompt_BT, next_B1}, 1));  // [B, 1, V]: of the last position
//
// Works like context parallelism: the decoder receives whole sequences and computes a part of their
// positions (SequencePart); Attention::core holds the keys and values of the earlier positions.
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
  // Caches up to `capacity` positions per sequence. The decoder must compute whole sequences (no
  // context parallelism, no sequence shards), outlive this object, and run without an autograd
  // graph meanwhile.
  KeyValueCache(Decoder& decoder, int64_t capacity);
  // Restores the decoder's sequence part and attention cores.
  ~KeyValueCache();
  KeyValueCache(const KeyValueCache&) = delete;
  KeyValueCache& operator=(const KeyValueCache&) = delete;

  // Declares that the next sequences begin with the first `length` cached positions, so that
  // forward passes compute only the positions after them. 0 means that nothing is cached. RoPE's
  // angles must be equal at the old and the new sequence length (Decoder::turns_alike).
  void keep(int64_t length);

 private:
  struct Layer {
    at::Tensor k_BGCK, v_BGCV;  // keys and values of one layer; C is the capacity
  };

  at::Tensor attend(Layer& layer, const Qkv& heads, const AttentionParams& params,
                    const std::optional<at::Tensor>& sinks_H) const;

  Decoder& decoder_;
  int64_t capacity_;
  int64_t kept_ = 0;
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace am::nn
