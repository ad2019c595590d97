// What a strategy does around each unit's computation (model/inventory.h says what a unit is).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace am::nn {

// One use of a unit in the forward pass. A tied head's unit has two: its rows are looked up first,
// and it is multiplied with last.
struct UnitUse {
  int unit = 0;
  bool backward_reads_parameters = true;  // a look-up's gradient needs none
};

// Called in the order of Decoder::unit_uses(), of which `use` is an index. Each may put other
// tensors in the place of those that go in or come out.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before_unit(size_t use, std::span<at::Tensor> inputs) = 0;
  virtual void after_unit(size_t use, std::span<at::Tensor> outputs) = 0;
};

}  // namespace am::nn
