// Dropout of LoRA adapters, as in PEFT: applied to the input of A, in training only.
#pragma once

#include <cstdint>
#include <optional>

#include "am/nn/fused/dropout.h"

namespace am::nn {

// The numbers that determine the dropout masks of one training batch, together with each module's
// name.
struct DropoutPass {
  uint64_t seed = 0;
  uint64_t step = 0;
  fused::DropoutRows rows = {};
};

// Returns the pass that is active on this thread, or nothing if there is no dropout. When a
// checkpointed segment is recomputed, the pass that was active in the segment's forward is active
// again.
std::optional<DropoutPass> current_dropout();

// Makes a pass (or none) active on this thread, and restores the previous pass on destruction.
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
  int64_t first_column = 0;  // first column of A that this rank holds; 0 if it holds all columns

  // Returns this module's dropout in the pass that is active on this thread; empty if no pass is
  // active.
  std::optional<fused::Dropout> here() const;
};

}  // namespace am::nn
