#include "am/train/job_length.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "am/base/number.h"

namespace am::train {

config::Plan with_length(config::Plan plan, const ResumePoint& begin,
                         const data::BatchReader& reader) {
  config::TrainSection& train = plan.train;
  const int64_t batch = train.global_batch_size;
  const int64_t before = first_sample(begin, plan);
  std::vector<int64_t> ends;  // for each limit, the step at which it ends the job
  if (plan.max_steps_apply()) ends.push_back(train.max_steps);
  if (train.max_tokens > 0) {
    const int64_t sequences = train.max_tokens / train.seq_len - before;
    ends.push_back(begin.info.step + std::max<int64_t>(0, sequences / batch));
  }
  if (const auto all = reader.sampler().size()) {
    ends.push_back(begin.info.step + ceil_div(std::max<int64_t>(0, *all - before), batch));
  }
  train.max_steps = *std::min_element(ends.begin(), ends.end());
  return plan;
}

}  // namespace am::train
