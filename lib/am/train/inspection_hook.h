// Interface for code that inspects the model between two steps, on all ranks together, for example
// for a session that is attached to the job (live/attach_server.h).
//
// Note [Visits]: between two steps, the trainer may call the hook's visit() on all ranks. A hook on
// any rank requests a visit in the message that every step sends anyway (StepReport::visit). All
// ranks thus receive the request before the next step, without another message. A visit must not
// affect training: the next step begins with the same parameters, optimizer states, batches and
// random numbers.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "am/observe/metrics.h"

namespace am::train {

struct Boundary {
  int64_t steps = 0;  // number of finished steps
  const observe::StepMetrics& metrics;
  // Writes a checkpoint of the current state, unless there is one already, and returns its path; an
  // empty path if none is written because the state is not finite. Collective.
  std::function<std::filesystem::path()> save;
};

class InspectionHook {
 public:
  virtual ~InspectionHook() = default;

  // Whether this rank requests a call of visit() after `steps` finished steps. Called in every
  // step, so it must be cheap.
  virtual bool wants_visit(int64_t steps) = 0;
  // Inspects the model. Returns false if the job must stop after this visit. Collective.
  virtual bool visit(const Boundary& boundary) = 0;
  // Inspects the model after a step that ends the job, for at most `patience`. `reason`: the error.
  // `boundary.steps` excludes the failed step; `boundary.metrics` are those of the failed step.
  // Collective.
  virtual void hold(const Boundary& /*boundary*/, const std::string& /*reason*/,
                    std::chrono::minutes /*patience*/) {}
};

}  // namespace am::train
