#include "am/nn/key_value_cache.h"

#include <ATen/ATen.h>

#include "am/base/error.h"
#include "am/nn/attention/attention.h"
#include "am/nn/attention/blocked.h"

namespace am::nn {
namespace {

constexpr int64_t kPositionDim = 2;

// Writes x, the keys or values of t new positions, after the first `first` cached positions of the
// buffer `kept_BGCX`. If the buffer is undefined, or has another shape or dtype than x requires,
// allocates a new buffer; `first` must then be 0.
void append(at::Tensor& kept_BGCX, const at::Tensor& x_BGtX, int64_t first, int64_t capacity) {
  std::vector<int64_t> sizes = x_BGtX.sizes().vec();
  const int64_t count = sizes[kPositionDim];
  sizes[kPositionDim] = capacity;
  if (!kept_BGCX.defined() || kept_BGCX.sizes() != sizes ||
      kept_BGCX.scalar_type() != x_BGtX.scalar_type()) {
    AM_ASSERT(first == 0, "cached sequences keep their shape and dtype");
    kept_BGCX = at::empty(sizes, x_BGtX.options());
  }
  kept_BGCX.narrow(kPositionDim, first, count).copy_(x_BGtX);
}

}  // namespace

KeyValueCache::KeyValueCache(Decoder& decoder, int64_t capacity)
    : decoder_(decoder), capacity_(capacity) {
  for (DecoderLayer& layer : decoder.layers()) {
    AM_ASSERT(!layer.self_attn.core, "a key/value cache requires whole sequences on a rank");
    Layer& own = *layers_.emplace_back(std::make_unique<Layer>());
    layer.self_attn.core = std::make_shared<const AttentionCore>(
        [this, &own](const Qkv& heads, const AttentionParams& params,
                     const std::optional<at::Tensor>& sinks_H) {
          return attend(own, heads, params, sinks_H);
        });
  }
}

KeyValueCache::~KeyValueCache() {
  for (DecoderLayer& layer : decoder_.layers()) layer.self_attn.core.reset();
  keep(0);
}

void KeyValueCache::keep(int64_t length) {
  SequencePart part = decoder_.sequence_part();
  part.first = kept_ = length;
  decoder_.set_sequence_part(part);
}

at::Tensor KeyValueCache::attend(Layer& layer, const Qkv& heads, const AttentionParams& params,
                                 const std::optional<at::Tensor>& sinks_H) const {
  const Qkv own = narrowed(heads);
  append(layer.k_BGCK, own.k_BGsK, kept_, capacity_);
  append(layer.v_BGCV, own.v_BGsV, kept_, capacity_);
  if (kept_ == 0) return attention(heads, params, sinks_H);
  const int64_t length = kept_ + own.q_BHtK.size(kPositionDim);
  return attended({own.q_BHtK, layer.k_BGCK.narrow(kPositionDim, 0, length),
                   layer.v_BGCV.narrow(kPositionDim, 0, length)},
                  params, {.query = kept_}, sinks_H)
      .out_BtHV.transpose(1, 2);
}

}  // namespace am::nn
