#include "am/train/data_batches.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "am/base/fault.h"
#include "am/data/from_plan.h"
#include "am/launch/supervise/wall_time.h"
#include "am/runtime/trace_range.h"
#include "am/tensor/token_check.h"
#include "am/train/setup.h"

namespace am::train {

DataBatches::DataBatches(const config::Plan& plan, std::unique_ptr<data::BatchReader> reader,
                         const runtime::DeviceMesh& mesh, int64_t first_step, int64_t first_sample,
                         int64_t vocabulary)
    : plan_(plan),
      reader_(std::move(reader)),
      layout_{plan.train.micro_batch_size, mesh.group("dp").size(), mesh.group("dp").index()},
      device_(mesh.device()),
      first_step_(first_step),
      first_sample_(first_sample),
      vocabulary_(vocabulary),
      micro_batches_(batch_sizes(plan, mesh.layout().sizes()).micro_batches) {}

data::Batch DataBatches::read_host(Place place) const {
  if (fault::is_planted(fault::Fault::kSlowData) && layout_.dp_index == layout_.dp_size - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return reader_->read_micro_batch(samples_before(place.step), place.micro_batch, layout_);
}

data::Batch DataBatches::read_and_go_ahead(Place place) {
  const bool known = ahead_of_ == place;
  ahead_of_.reset();
  data::Batch batch = known ? ahead_.get() : read_host(place);
  Place next = {place.step, place.micro_batch + 1};
  if (next.micro_batch == micro_batches_) next = {place.step + 1, 0};
  ahead_ = std::async(std::launch::async, [this, next] { return read_host(next); });
  ahead_of_ = next;
  return batch;
}

at::Tensor DataBatches::on_host(const std::vector<int64_t>& values,
                                const data::Batch& batch) const {
  at::Tensor tensor = at::empty({batch.rows, batch.seq_len},
                                at::TensorOptions(at::kLong).pinned_memory(device_.is_cuda()));
  std::copy(values.begin(), values.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

at::Tensor DataBatches::ids_on_device(const data::Batch& batch) const {
  const at::Tensor ids = on_host(batch.inputs, batch);
  if (device_.is_cpu()) return ids;
  tensor::check_tokens(ids, "token id", vocabulary_);
  return ids.to(device_, /*non_blocking=*/true);
}

at::Tensor DataBatches::labels_on_device(const data::Batch& batch) const {
  const at::Tensor labels = on_host(batch.labels, batch);
  if (device_.is_cpu()) return labels;
  tensor::check_tokens(labels, "label", vocabulary_, data::kIgnoredLabel);
  return labels.to(device_, /*non_blocking=*/true);
}

MicroBatch DataBatches::read(int64_t step, int64_t micro_batch) {
  const runtime::TraceRange range([] { return "data"; });
  const Place place = {step, micro_batch};
  const auto start = std::chrono::steady_clock::now();
  const data::Batch batch = device_.is_cpu() ? read_host(place) : read_and_go_ahead(place);
  waited_ += launch::seconds_since(start);
  MicroBatch tensors;
  tensors.first_sequence = data::micro_batch_position(micro_batch, layout_);
  tensors.ids_BT = ids_on_device(batch);
  if (step == 2 && fault::is_planted(fault::Fault::kUncheckedId)) {
    tensors.ids_BT.narrow(1, 0, 1).fill_(vocabulary_);
  }
  tensors.labels_BT = labels_on_device(batch);
  if (plan_.data.has_documents()) {
    // For a GPU, positions stay on the host: the decoder reads from them where documents begin.
    const at::Tensor positions = on_host(batch.positions, batch);
    tensors.positions_BT = device_.is_cuda() ? positions : positions.to(device_);
  }
  return tensors;
}

int64_t DataBatches::labels(int64_t step) {
  if (fault::is_planted(fault::Fault::kLabelsOfRank)) {
    int64_t own = 0;
    for (int64_t m = 0; m < micro_batches_; ++m) {
      const int64_t first = samples_before(step) + data::micro_batch_position(m, layout_);
      own += reader_->counted_labels(first, layout_.micro_batch_size);
    }
    return own * layout_.dp_size;
  }
  const int64_t batch = plan_.train.global_batch_size;
  if (fault::is_planted(fault::Fault::kLabelsOfPadding)) return batch * plan_.train.seq_len;
  return reader_->counted_labels(samples_before(step), batch);
}

std::vector<double> DataBatches::epochs(int64_t step) const {
  if (plan_.train.epochs == 0 && plan_.data.sources.empty()) return {};
  return reader_->sampler().epochs_before(samples_before(step));
}

int64_t DataBatches::samples_read(int64_t step) const {
  const int64_t before = samples_before(step);
  return std::min(before, reader_->sampler().size().value_or(before));
}

bool DataBatches::is_beyond_end(int64_t step) const {
  const auto size = reader_->sampler().size();
  return size && samples_before(step) >= *size;
}

int64_t DataBatches::samples_before(int64_t step) const {
  return first_sample_ + (step - first_step_) * plan_.train.global_batch_size;
}

}  // namespace am::train
