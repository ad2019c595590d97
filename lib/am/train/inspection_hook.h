// Interface for code that inspects the model between two steps, on all ranks together: a session
// attached to the job (live/host.h).
//
// Note [Visits]: a hook on any rank requests a visit in the message that every step sends anyway
// (StepReport::visit), so all ranks know of it before the next step without another message. A
// visit must not affect training: the next step begins with the same parameters, optimizer states,
// batches and random numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "am/observe/metrics.h"

namespace am::train {

struct Boundary {
  int64_t steps = 0;  // finished
  const observe::StepMetrics& metrics;
  // Writes a checkpoint of the current state and returns its path. Collective. The path is empty if
  // no checkpoint is written because the state is not finite.
  std::function<std::filesystem::path()> save;
};

class InspectionHook {
 public:
  virtual ~InspectionHook() = default;

  // Whether to visit after `steps` finished steps. Called in every step; must be cheap.
  virtual bool wants_visit(int64_t steps) = 0;
  // Collective. Returns false if the job must stop here.
  virtual bool visit(const Boundary& boundary) = 0;
};

}  // namespace am::train
