// Dropout of LoRA adapters, as in PEFT: applied to the input of A, in training only.
#pragma once

#include <cstdint>
#include <optional>

#include "am/nn/fused/dropout.h"

namespace am::nn {

// Fields that determine the dropout masks of one training batch.
struct DropoutPass {
  uint64_t seed = 0;
  uint64_t step = 0;
  fused::DropoutRows rows = {};
};

// Returns the pass that is active on this thread; empty: no dropout. When a checkpointed segment is
// recomputed, the pass of its forward is active again.
std::optional<DropoutPass> current_dropout();

// Makes a pass (or none) active on this thread; restores the previous one on destruction.
class DropoutScope {
 public:
  explicit DropoutScope(const std::optional<DropoutPass>& pass);
  ~DropoutScope();
  DropoutScope(const DropoutScope&) = delete;
  DropoutScope& operator=(const DropoutScope&) = delete;

 private:
  std::optional<DropoutPass> before_;
};

struct AdapterDropout {
  double p = 0.0;
  uint64_t module = 0;       // hash of the module's name
  int64_t first_column = 0;  // first column of A's slice; 0 if A is whole

  // Returns this module's dropout under the thread's active pass; empty if no pass is active.
  std::optional<fused::Dropout> here() const;
};

}  // namespace am::nn
