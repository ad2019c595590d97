// Keys and values of the positions that a decoder has computed, so that a text which grows is
// computed from its new tokens alone.
//
//   KeyValueCache cache(decoder, 2048);
//   at::Tensor logits = decoder(prompt_BT);            // of all its positions
//   cache.keep(prompt_BT.size(1));
//   logits = decoder(at::cat({prompt_BT, next_B1}, 1));  // [B, 1, V]: of the last one
//
// The seam is that of context parallelism: the decoder is given whole sequences and computes a part
// of their positions (SequencePart), and attention's core has the keys of the others.
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
  // Of sequences of at most `capacity` positions. The decoder has whole sequences (no context
  // parallelism, no shards of sequences), outlives this, and runs without a graph meanwhile.
  KeyValueCache(Decoder& decoder, int64_t capacity);
  // The decoder is as it was.
  ~KeyValueCache();
  KeyValueCache(const KeyValueCache&) = delete;
  KeyValueCache& operator=(const KeyValueCache&) = delete;

  // The next sequences begin with the first `length` positions of those that were computed last,
  // and forward passes compute what follows them; 0: all of it. Sequences of both lengths must turn
  // alike (Decoder::turns_alike).
  void keep(int64_t length);

 private:
  struct Layer {
    at::Tensor k_BGCK, v_BGCV;  // C: capacity
  };

  at::Tensor attend(Layer& layer, const Heads& heads, const Look& look,
                    const std::optional<at::Tensor>& sinks_H) const;

  Decoder& decoder_;
  int64_t capacity_;
  int64_t kept_ = 0;
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace am::nn
