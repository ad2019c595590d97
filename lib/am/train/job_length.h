// Decides after how many steps a job ends.
#pragma once

#include "am/config/plan.h"
#include "am/data/batch.h"
#include "am/train/resume.h"

namespace am::train {

// Returns the plan with train.max_steps set to the step at which the job ends: the earliest of
// train.max_steps, the step that train.max_tokens allows, and the step that reads the last sample.
// The batch of this last step may have rows without samples. `plan` must be a result of
// with_batch().
config::Plan with_length(config::Plan plan, const ResumePoint& begin,
                         const data::BatchReader& reader);

}  // namespace am::train
