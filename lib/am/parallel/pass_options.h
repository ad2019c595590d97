// Options of a forward and backward pass over micro-batches.
#pragma once

#include <cstdint>
#include <functional>

namespace am::parallel {

struct PassOptions {
  // Divisor of the sum of the cross-entropies before backward: the number of labels of the global
  // batch, divided by the loss scale.
  double divisor = 1.0;
  // Whether this is the step's last pass, in which the last micro-batch's backward reduces the
  // gradients over the ranks. If false, get_sync_ctx (sync_ctx.h) decides whether they wait for a
  // later pass.
  bool reduce = true;
  // Seed and step of the adapters' dropout (nn::Decoder::begin_dropout).
  uint64_t seed = 0;
  int64_t step = 0;
  // Called when this rank's "forward" and "backward" of the last micro-batch have finished.
  std::function<void(const char* phase)> phase_over = {};
};

}  // namespace am::parallel
