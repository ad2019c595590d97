// Callbacks of a strategy around the computation of each FSDP unit (model/inventory.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace am::nn {

// One use of an FSDP unit in the forward pass. The unit of a tied head has two uses: the embedding
// look-up at the start, and the head's product at the end.
struct UnitUse {
  int unit = 0;
  // False for a look-up without a norm after it: its gradient does not depend on the parameters.
  bool backward_reads_parameters = true;
};

// Callbacks in the order of Decoder::unit_uses(); `use` is an index into that list. A callback may
// replace the input or output tensors.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before_unit(size_t use, std::span<at::Tensor> inputs) = 0;
  virtual void after_unit(size_t use, std::span<at::Tensor> outputs) = 0;
};

}  // namespace am::nn
