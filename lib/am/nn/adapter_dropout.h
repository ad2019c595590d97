// Where the dropout of a decoder's adapters is: PEFT's, of what A reads, in training alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "am/nn/fused/dropout.h"

namespace am::nn {

// The batch that is in training: shared by all adapters of a decoder.
struct DropoutPass {
  bool active = false;  // else nothing is dropped
  uint64_t seed = 0;
  uint64_t step = 0;
  fused::DropoutRows rows = {};
};

struct AdapterDropout {
  double p = 0.0;
  uint64_t module = 0;  // hash of its name
  std::shared_ptr<const DropoutPass> pass;
  int64_t first_column = 0;  // of a piece of A's columns

  // Of the batch in training.
  std::optional<fused::Dropout> here() const;
};

}  // namespace am::nn
