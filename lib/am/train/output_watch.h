// Observes the outputs of a pipeline stage's FSDP units in forward.
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

// The output of an FSDP unit in a forward pass of a stage. A unit may have several uses, for
// example a tied embedding that is also the head (nn::Decoder::unit_uses).
struct UnitOutput {
  size_t use = 0;        // index in nn::Decoder::unit_uses
  int64_t call = 0;      // index of the micro-batch: number of earlier forward passes since begin()
  int64_t place = 0;     // index of the use in the forward of the full model, over all stages
  bool is_head = false;  // whether the output is the logits
  // The unit's name; for the root unit, the final norm's module name. For a tied head, which
  // belongs to the embedding's unit, " (head)" follows the name.
  std::string name;
  at::Tensor output;  // this rank's part of the output
};

// Calls `visit` for the output of each FSDP unit while the object exists. Also calls the hooks that
// the strategy set earlier.
class OutputWatch : public nn::UnitHooks {
 public:
  using Visit = std::function<void(const UnitOutput&)>;

  // `stage` must outlive this object.
  OutputWatch(parallel::StageModel& stage, Visit visit);
  ~OutputWatch() override;
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;

  // Restarts UnitOutput::call at 0.
  void begin();
  void before_unit(size_t use, std::span<at::Tensor> inputs) override;
  void after_unit(size_t use, std::span<at::Tensor> outputs) override;

 private:
  parallel::StageModel& stage_;
  nn::UnitHooks* inner_;  // the strategy's hooks; may be null
  Visit visit_;
  std::vector<int64_t> calls_;  // number of forward passes of each use since begin()
};

}  // namespace am::train
