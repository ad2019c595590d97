// Whoever looks at a model between two steps, on all ranks at once: a session that is attached to
// the job (live/host.h).
//
// Note [Visits]: a guest on any rank asks with the message that a step sends anyway
// (StepReport::visit), so all ranks know of it before the next step, and nobody waits for a message
// of its own. What a guest does must leave training as it was: the next step begins with the same
// parameters, optimizer states, batches and random numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "am/observe/metrics.h"

namespace am::train {

struct Boundary {
  int64_t steps = 0;  // finished
  const observe::StepMetrics& metrics;
  // Collective: a checkpoint of now. Empty where none is written, because the state is not finite.
  std::function<std::filesystem::path()> save;
};

class Guest {
 public:
  virtual ~Guest() = default;

  // Whether a visit is wanted when `steps` are finished. Asked with every step: it costs nothing.
  virtual bool wants_visit(int64_t steps) = 0;
  // Collective. False: the job is to stop here.
  virtual bool visit(const Boundary& boundary) = 0;
};

}  // namespace am::train
