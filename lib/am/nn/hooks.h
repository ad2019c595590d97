// Callbacks of a parallel strategy before and after the computation of each FSDP unit
// (model/inventory.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace am::nn {

// One use of an FSDP unit in the forward pass. A unit that an embedding and a tied head share has
// two uses: the embedding look-up at the start, and the head's product at the end.
struct UnitUse {
  int unit = 0;
  // Whether backward reads the unit's parameters. False for an embedding look-up that no norm
  // follows: the look-up's gradient does not depend on the parameters.
  bool backward_reads_parameters = true;
};

// The decoder calls before_unit() and after_unit() for each element of Decoder::unit_uses(), in
// order; `use` is the index of the element. A callback may replace the input or output tensors.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before_unit(size_t use, std::span<at::Tensor> inputs) = 0;
  virtual void after_unit(size_t use, std::span<at::Tensor> outputs) = 0;
};

}  // namespace am::nn
