// Reads one rank's micro-batches from the plan's data.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "am/config/plan.h"
#include "am/data/batch.h"
#include "am/runtime/device_mesh.h"
#include "am/train/step.h"

namespace am::train {

class DataBatches : public BatchSource {
 public:
  // `plan.train.global_batch_size` must be set (with_batch in resume.h), and `plan` must outlive
  // this object. `first_sample` is the index, in the reader's order, of the first sequence of step
  // `first_step`. Token ids must be below `vocabulary`.
  DataBatches(const config::Plan& plan, std::unique_ptr<data::BatchReader> reader,
              const runtime::DeviceMesh& mesh, int64_t first_step, int64_t first_sample,
              int64_t vocabulary);

  // Returns this rank's micro-batch, with ids and labels on its device. For a GPU, checks ids and
  // labels on the host, copies them asynchronously from pinned memory, and reads the next
  // micro-batch in the background. Throws Error(kUsage) for an id or label outside the vocabulary;
  // on the CPU, the model makes this check instead.
  MicroBatch read(int64_t step, int64_t micro_batch) override;

  int64_t labels(int64_t step) override;
  // Returns the seconds for which read() has waited for data since the last call of take_wait().
  double take_wait() { return std::exchange(waited_, 0.0); }

  // Returns how many epochs of each data source the steps before `step` have read, including
  // fractions of an epoch; empty for plans that set neither train.epochs nor data.source.
  std::vector<double> epochs(int64_t step) const;
  // Returns the index of the first sequence of `step` in the reader's order.
  int64_t samples_before(int64_t step) const;
  // Returns the number of samples that all steps before `step`, including those of earlier jobs,
  // have read. Rows of a batch beyond the end of the data do not count.
  int64_t samples_read(int64_t step) const;
  // Whether `step` begins beyond the end of the data.
  bool is_beyond_end(int64_t step) const;

 private:
  struct Place {
    int64_t step = 0;
    int64_t micro_batch = 0;
    bool operator==(const Place&) const = default;
  };

  data::Batch read_host(Place place) const;
  // Returns the micro-batch at `place`, and starts to read the next micro-batch in the background.
  // Does not read a micro-batch again that was read in the background.
  data::Batch read_and_go_ahead(Place place);
  at::Tensor on_host(const std::vector<int64_t>& values, const data::Batch& batch) const;
  at::Tensor ids_on_device(const data::Batch& batch) const;
  at::Tensor labels_on_device(const data::Batch& batch) const;

  const config::Plan& plan_;
  std::unique_ptr<data::BatchReader> reader_;
  data::BatchLayout layout_;
  at::Device device_;
  int64_t first_step_;
  int64_t first_sample_;
  int64_t vocabulary_;
  int64_t micro_batches_;          // number of micro-batches of this rank per step
  std::optional<Place> ahead_of_;  // place of the micro-batch in `ahead_`
  std::future<data::Batch> ahead_;
  double waited_ = 0.0;  // seconds
};

}  // namespace am::train
