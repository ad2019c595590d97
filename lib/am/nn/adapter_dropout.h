// Dropout of LoRA adapters, as in PEFT: applied to the input of A, in training only.
#pragma once

#include <cstdint>
#include <optional>

#include "am/nn/fused/dropout.h"

namespace am::nn {

// Identifies the batch in training: masks are a function of these fields.
struct DropoutPass {
  uint64_t seed = 0;
  uint64_t step = 0;
  fused::DropoutRows rows = {};
};

// Returns the pass that is active on this thread; empty: nothing is dropped. A checkpointed segment
// restores the pass of its forward when it is recomputed.
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
  int64_t first_column = 0;  // where A holds a slice of its columns: the first of them

  // Returns the dropout of the batch in training; empty outside of training.
  std::optional<fused::Dropout> here() const;
};

}  // namespace am::nn
