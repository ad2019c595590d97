// Where the dropout of a decoder's adapters is: PEFT's, of what A reads, in training alone.
#pragma once

#include <cstdint>
#include <optional>

#include "am/nn/fused/dropout.h"

namespace am::nn {

// The batch that is in training.
struct DropoutPass {
  uint64_t seed = 0;
  uint64_t step = 0;
  fused::DropoutRows rows = {};
};

// What is in force on this thread; absent: nothing is dropped. Segments that are checkpointed put
// theirs in force again when they run again.
std::optional<DropoutPass> current_dropout();

// Puts a pass (or none) in force on this thread, and what was there before when it ends.
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
  uint64_t module = 0;       // hash of its name
  int64_t first_column = 0;  // of a piece of A's columns

  // Of the batch in training.
  std::optional<fused::Dropout> here() const;
};

}  // namespace am::nn
