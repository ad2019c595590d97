// Looks at what a stage's units give, on their way from one to the next.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "am/nn/hooks.h"
#include "am/parallel/stage_model.h"

namespace am::train {

// Of one use of a unit (nn::Decoder::unit_uses) in a stage.
struct UnitOutput {
  size_t use = 0;
  int64_t call = 0;   // how many times it was used before since begin(): the micro-batch
  int64_t place = 0;  // in the order of the whole model's forward
  std::string name;   // of the unit; a tied head, the embedding's unit once more, is "... (head)"
  at::Tensor output;  // this rank's part of it
};

// While it lives. What stands behind the hooks of strategies is called as before.
class OutputWatch : public nn::UnitHooks {
 public:
  using Visit = std::function<void(const UnitOutput&)>;

  // `stage` must outlive it.
  OutputWatch(parallel::StageModel& stage, Visit visit);
  ~OutputWatch() override;
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;

  // Calls are counted from 0 again.
  void begin();
  void before_unit(size_t use, std::span<at::Tensor> inputs) override;
  void after_unit(size_t use, std::span<at::Tensor> outputs) override;

 private:
  parallel::StageModel& stage_;
  nn::UnitHooks* inner_;
  Visit visit_;
  std::vector<int64_t> calls_;  // by use
};

}  // namespace am::train
