// The micro-batches that a plan's data gives to one rank.
#pragma once

#include <cstdint>
#include <memory>

#include "am/config/plan.h"
#include "am/data/batch.h"
#include "am/runtime/device_mesh.h"
#include "am/train/step.h"

namespace am::train {

class DataBatches : public BatchSource {
 public:
  // `plan` with its batch filled in; it must outlive this. `first_step` begins with the sample
  // `first_sample` of the reader's order.
  DataBatches(const config::Plan& plan, std::unique_ptr<data::BatchReader> reader,
              const runtime::DeviceMesh& mesh, int64_t first_step, int64_t first_sample);

  MicroBatch read(int64_t step, int64_t micro_batch) override;

  // How many sequences come before those of `step`.
  int64_t samples_before(int64_t step) const;

 private:
  const config::Plan& plan_;
  std::unique_ptr<data::BatchReader> reader_;
  data::BatchLayout layout_;
  at::Device device_;
  int64_t first_step_;
  int64_t first_sample_;
};

}  // namespace am::train
