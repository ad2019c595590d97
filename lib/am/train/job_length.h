// Decides after how many steps a job ends.
#pragma once

#include "am/config/plan.h"
#include "am/data/batch.h"
#include "am/train/resume.h"

namespace am::train {

// Returns the plan with train.max_steps set to the step at which the job ends: the first one among
// train.max_steps, train.max_tokens, and the end of the data, after which the last step may have
// rows without samples. `plan` must be a result of with_batch().
config::Plan with_length(config::Plan plan, const ResumePoint& begin,
                         const data::BatchReader& reader);

}  // namespace am::train
