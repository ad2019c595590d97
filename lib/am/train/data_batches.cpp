#include "am/train/data_batches.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace am::train {

namespace {

at::Tensor as_tensor(const std::vector<int64_t>& values, const data::Batch& batch,
                     at::Device device) {
  at::Tensor tensor = at::empty({batch.rows, batch.seq_len}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.data_ptr<int64_t>());
  return tensor.to(device);
}

}  // namespace

DataBatches::DataBatches(const config::Plan& plan, std::unique_ptr<data::BatchReader> reader,
                         const runtime::DeviceMesh& mesh, int64_t first_step, int64_t first_sample)
    : plan_(plan),
      reader_(std::move(reader)),
      layout_{plan.train.micro_batch_size, mesh.group("dp").size(), mesh.group("dp").index()},
      device_(mesh.device()),
      first_step_(first_step),
      first_sample_(first_sample) {}

MicroBatch DataBatches::read(int64_t step, int64_t micro_batch) {
  const data::Batch batch = reader_->read_micro_batch(samples_before(step), micro_batch, layout_);
  MicroBatch tensors;
  tensors.first_sequence = data::micro_batch_position(micro_batch, layout_);
  tensors.ids_BT = as_tensor(batch.inputs, batch, device_);
  tensors.labels_BT = as_tensor(batch.labels, batch, device_);
  if (plan_.data.reset_position_ids) {
    tensors.positions_BT =
        as_tensor(data::document_positions(batch, *plan_.data.eod_token), batch, device_);
  }
  return tensors;
}

int64_t DataBatches::samples_before(int64_t step) const {
  return first_sample_ + (step - first_step_) * plan_.train.global_batch_size;
}

}  // namespace am::train
