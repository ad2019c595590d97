// Interface for code that inspects the model between two steps, on all ranks together. An example
// is the server for sessions that are attached to the job (live/attach_server.h).
//
// Note [Visits]: between two steps, the trainer may call the hook's visit() on all ranks. The hook
// of any rank may request a visit: the request is a part of the message that every step sends
// anyway (StepReport::visit). All ranks thus receive the request before the next step, without
// another message. A visit must not change the parameters, optimizer states, batches or random
// numbers with which the next step begins. A visit may change optimizer.lr
// (Trainer::set_learning_rate).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "am/observe/metrics.h"

namespace am::train {

// The state of training between two steps.
struct Boundary {
  int64_t steps = 0;  // number of finished steps
  const observe::StepMetrics& metrics;
  // Returns the path of a checkpoint of the current state. In visit(), writes the checkpoint unless
  // it exists already; returns an empty path if the state is not finite and is therefore not saved.
  // In hold(), always writes the state to the run folder's failure/. Collective.
  std::function<std::filesystem::path()> save;
};

class InspectionHook {
 public:
  virtual ~InspectionHook() = default;

  // Returns whether this rank requests a call of visit() after `steps` finished steps. The trainer
  // calls this function in every step, so the function must be cheap.
  virtual bool wants_visit(int64_t steps) = 0;
  // Inspects the model. Returns false if the job must stop after this visit. Collective.
  virtual bool visit(const Boundary& boundary) = 0;
  // Inspects the model after a failed step that ends the job, for at most `patience`. `reason`:
  // message of the step's error. `boundary.steps` does not count the failed step;
  // `boundary.metrics` are the metrics of the failed step. Collective.
  virtual void hold(const Boundary& /*boundary*/, const std::string& /*reason*/,
                    std::chrono::minutes /*patience*/) {}
};

}  // namespace am::train
