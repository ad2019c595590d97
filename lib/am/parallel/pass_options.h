// How a forward and backward pass over micro-batches is made.
#pragma once

#include <cstdint>
#include <functional>

namespace am::parallel {

struct PassOptions {
  // What the sum of the cross-entropies is divided by before its backward: the labels of the global
  // batch, over the loss scale.
  double divisor = 1.0;
  // The step's last pass: with the last micro-batch's backward the gradients are reduced over the
  // ranks. False: as get_sync_ctx says (sync_ctx.h), they wait for a later pass.
  bool reduce = true;
  // What adapters drop is drawn by these (nn::Decoder::begin_dropout).
  uint64_t seed = 0;
  int64_t step = 0;
  // Told when this rank's "forward" and "backward" of the last micro-batch are over.
  std::function<void(const char* phase)> phase_over = {};
};

}  // namespace am::parallel
