#include "am/data/batch.h"

#include "am/base/error.h"

namespace am::data {

Batch BatchReader::read_batch(int64_t first, int64_t count) const {
  AM_ASSERT(count >= 0, "a negative number of sequences");
  Batch batch;
  batch.rows = count;
  batch.seq_len = seq_len_;
  for (auto* values : {&batch.inputs, &batch.labels, &batch.positions}) {
    values->reserve(static_cast<size_t>(count * seq_len_));
  }
  SampleRow row(seq_len_);
  for (int64_t i = 0; i < count; ++i) {
    samples_->read(sampler_.sample(first + i), row);
    batch.inputs.insert(batch.inputs.end(), row.inputs.begin(), row.inputs.end());
    batch.labels.insert(batch.labels.end(), row.labels.begin(), row.labels.end());
    batch.positions.insert(batch.positions.end(), row.positions.begin(), row.positions.end());
  }
  return batch;
}

int64_t BatchReader::counted_labels(int64_t first, int64_t count) const {
  int64_t labels = 0;
  for (int64_t i = 0; i < count; ++i)
    labels += samples_->counted_labels(sampler_.sample(first + i));
  return labels;
}

Batch BatchReader::read_micro_batch(int64_t place, int64_t micro_batch,
                                    const BatchLayout& layout) const {
  return read_batch(place + micro_batch_position(micro_batch, layout), layout.micro_batch_size);
}

}  // namespace am::data
