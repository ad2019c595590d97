// Decides after how many steps a job ends.
#pragma once

#include "am/config/plan.h"
#include "am/data/batch.h"
#include "am/train/resume.h"

namespace am::train {

// Returns the plan with train.max_steps set to the number of steps after which the job ends,
// including the steps of earlier jobs. This number is the smallest of train.max_steps (if it
// limits the job: Plan::max_steps_apply()), the number of steps that train.max_tokens allows, and
// the number of steps that read all samples. If the samples limit the job, the batch of the last
// step may have rows without samples. `plan` must be a result of with_batch().
config::Plan with_length(config::Plan plan, const ResumePoint& begin,
                         const data::BatchReader& reader);

}  // namespace am::train
