// The micro-batches that a plan's data gives to one rank.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "am/config/plan.h"
#include "am/data/batch.h"
#include "am/runtime/device_mesh.h"
#include "am/train/step.h"

namespace am::train {

class DataBatches : public BatchSource {
 public:
  // `plan` with its batch filled in; it must outlive this. `first_step` begins with the sample
  // `first_sample` of the reader's order. Ids are below `vocabulary`.
  DataBatches(const config::Plan& plan, std::unique_ptr<data::BatchReader> reader,
              const runtime::DeviceMesh& mesh, int64_t first_step, int64_t first_sample,
              int64_t vocabulary);

  // For a GPU the batch is checked on the host, goes there from pinned memory behind the host's
  // back, and the one after it is being read meanwhile. Throws Error(kUsage) for an id outside the
  // vocabulary.
  MicroBatch read(int64_t step, int64_t micro_batch) override;

  // How many sequences come before those of `step`.
  int64_t samples_before(int64_t step) const;

 private:
  struct Place {
    int64_t step = 0;
    int64_t micro_batch = 0;
    bool operator==(const Place&) const = default;
  };

  data::Batch read_host(Place place) const;
  // The batch that was read ahead where it is this place's; begins to read the next one.
  data::Batch read_and_go_ahead(Place place);
  at::Tensor on_host(const std::vector<int64_t>& values, const data::Batch& batch) const;
  at::Tensor ids_on_device(const std::vector<int64_t>& values, const data::Batch& batch,
                           const char* what) const;

  const config::Plan& plan_;
  std::unique_ptr<data::BatchReader> reader_;
  data::BatchLayout layout_;
  at::Device device_;
  int64_t first_step_;
  int64_t first_sample_;
  int64_t vocabulary_;
  int64_t micro_batches_;  // of a step
  std::optional<Place> ahead_of_;
  std::future<data::Batch> ahead_;
};

}  // namespace am::train
