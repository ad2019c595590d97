// Dropout of LoRA adapters, as in PEFT: applied to the input of A, in training only.
#pragma once

#include <cstdint>
#include <optional>

#include "am/nn/fused/dropout.h"

namespace am::nn {

// Seed, step and tokens of one training batch. These values and a module's name together determine
// the module's dropout mask.
struct DropoutPass {
  uint64_t seed = 0;
  uint64_t step = 0;
  fused::DropoutRows rows = {};
};

// Returns the dropout pass that is active on this thread; empty if there is no dropout. The
// recomputation of a checkpointed segment runs under the dropout pass of the segment's forward.
std::optional<DropoutPass> current_dropout();

// Sets current_dropout() on this thread, and restores the previous dropout pass on destruction.
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
  double p = 0.0;            // probability of dropping an element
  uint64_t module = 0;       // hash of the module's name
  int64_t first_column = 0;  // first column of A on this rank; 0 if the rank holds all columns

  // Returns this module's dropout under current_dropout(); empty if there is no dropout.
  std::optional<fused::Dropout> here() const;
};

}  // namespace am::nn
