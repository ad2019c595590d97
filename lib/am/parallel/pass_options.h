// Options of a forward and backward pass over micro-batches.
#pragma once

#include <cstdint>
#include <functional>

namespace am::parallel {

struct PassOptions {
  // Divisor of the sum of cross-entropies before backward: the number of labels in the global
  // batch, divided by the loss scale.
  double divisor = 1.0;
  // Whether this is the step's last pass, in which the last micro-batch's backward reduces the
  // gradients over the ranks. If false, get_sync_ctx (sync_ctx.h) decides whether each backward
  // reduces its gradients or leaves them for a later pass.
  bool reduce = true;
  // Seed and step of the adapters' dropout (nn::Decoder::begin_dropout).
  uint64_t seed = 0;
  int64_t step = 0;
  // Called with "forward" and with "backward" when this rank has finished that phase of the last
  // micro-batch.
  std::function<void(const char* phase)> phase_over = {};
};

}  // namespace am::parallel
