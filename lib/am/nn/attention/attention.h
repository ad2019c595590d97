// Causal attention of whole sequences, and the seam through which a strategy computes that of
// sequences which lie on several ranks.
//
//   const at::Tensor out_BHTV = attention({q_BHTK, k_BGTK, v_BGTV}, {.scale = 0.125});
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// By ATen's flash kernel where it takes the look and the widths, else by blocks (blocked.h). The
// output lies as [B, T, H, V] in memory. `sinks_H`: see attend.
at::Tensor attention(const Heads& heads, const Look& look,
                     const std::optional<at::Tensor>& sinks_H = std::nullopt);

// The same of this rank's positions, which are not all. Look::window and document_BT are the whole
// sequence's, with its padding.
using AttentionCore = std::function<at::Tensor(const Heads& heads, const Look& look,
                                               const std::optional<at::Tensor>& sinks_H)>;
using AttentionCorePtr = std::shared_ptr<const AttentionCore>;

// In the dtype of autocast, where that is in force.
Heads narrowed(const Heads& heads);

}  // namespace am::nn
