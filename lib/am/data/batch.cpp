#include "am/data/batch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "am/base/error.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::data {

namespace {

std::vector<SampledSource> sampled(const std::vector<DataSource>& sources) {
  std::vector<SampledSource> out;
  for (const DataSource& each : sources) {
    out.push_back({each.samples->size(), each.weight, each.epochs});
  }
  return out;
}

// Fills a row with padding: token 0, and labels that the loss ignores.
void clear(SampleRow& row) {
  std::fill(row.inputs.begin(), row.inputs.end(), 0);
  std::fill(row.labels.begin(), row.labels.end(), kIgnoredLabel);
  std::iota(row.positions.begin(), row.positions.end(), int64_t{0});
}

}  // namespace

BatchReader::BatchReader(std::vector<DataSource> sources, int64_t seq_len,
                         const SamplerOptions& options)
    : sources_(std::move(sources)), seq_len_(seq_len), sampler_(sampled(sources_), options) {}

std::vector<std::string> BatchReader::descriptions() const {
  if (sources_.size() == 1) return {sources_.front().samples->description()};
  double all = 0.0;
  for (const DataSource& each : sources_) all += each.weight;
  std::vector<std::string> lines;
  for (const DataSource& each : sources_) {
    lines.push_back(cat(format_fixed(100.0 * each.weight / all, 1), " % ",
                        each.samples->description(),
                        each.epochs > 0 ? cat(", at most ", each.epochs, " epochs") : ""));
  }
  return lines;
}

int64_t BatchReader::tokens() const {
  int64_t all = 0;
  for (const DataSource& each : sources_) all += each.samples->tokens();
  return all;
}

std::string BatchReader::fingerprint() const {
  if (sources_.size() == 1) return sources_.front().samples->fingerprint();
  std::string all;
  for (const DataSource& each : sources_) {
    all += cat(each.samples->fingerprint(), " ", each.weight, " ", each.epochs, "\n");
  }
  return hash_text(hash_name(all));
}

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
    if (const auto draw = sampler_.draw(first + i)) {
      sources_[draw->source].samples->read(draw->sample, row);
    } else {
      clear(row);
    }
    batch.inputs.insert(batch.inputs.end(), row.inputs.begin(), row.inputs.end());
    batch.labels.insert(batch.labels.end(), row.labels.begin(), row.labels.end());
    batch.positions.insert(batch.positions.end(), row.positions.begin(), row.positions.end());
  }
  return batch;
}

int64_t BatchReader::counted_labels(int64_t first, int64_t count) const {
  int64_t labels = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto draw = sampler_.draw(first + i);
    if (draw) labels += sources_[draw->source].samples->counted_labels(draw->sample);
  }
  return labels;
}

Batch BatchReader::read_micro_batch(int64_t place, int64_t micro_batch,
                                    const BatchLayout& layout) const {
  return read_batch(place + micro_batch_position(micro_batch, layout), layout.micro_batch_size);
}

}  // namespace am::data
