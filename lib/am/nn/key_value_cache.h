// Key/value cache for generation: the decoder computes only the new tokens of a growing sequence.
//
//   KeyValueCache cache(decoder, 2048);
//   at::Tensor logits = decoder(prompt_BT);            // logits of all positions
//   cache.keep(prompt_BT.size(1));
//   logits = decoder(at::cat({prompt_BT, next_B1}, 1));  // logits of the last position
//
// Works like context parallelism: the decoder receives whole sequences and computes a part of their
// positions (SequencePart). Attention::core, which this class sets in each layer, also reads the
// cached keys and values of the earlier positions.
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
  // context parallelism, no sequence parallelism) and outlive this object. While this object
  // exists, the decoder must run without an autograd graph.
  KeyValueCache(Decoder& decoder, int64_t capacity);
  // Resets the decoder's sequence part and attention cores, so that it computes all positions
  // again.
  ~KeyValueCache();
  KeyValueCache(const KeyValueCache&) = delete;
  KeyValueCache& operator=(const KeyValueCache&) = delete;

  // Declares that the next sequences begin with the first `length` cached positions. Forward passes
  // then compute only the positions after these. 0 means that nothing is cached. RoPE's angles must
  // be equal at the old and the new sequence length (Decoder::turns_alike).
  void keep(int64_t length);

 private:
  // Keys and values of one layer. B batch, G key heads, C capacity, K and V widths of keys and
  // values.
  struct Layer {
    at::Tensor k_BGCK, v_BGCV;
  };

  at::Tensor attend(Layer& layer, const Qkv& heads, const AttentionParams& params,
                    const std::optional<at::Tensor>& sinks_H) const;

  Decoder& decoder_;
  int64_t capacity_;
  int64_t kept_ = 0;
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace am::nn
