#include "am/data/batch.h"

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::data {
namespace {

Sampler make_sampler(const TokenSource& source, const SamplerOptions& options) {
  try {
    return Sampler(source.size(), options);
  } catch (const Error& error) {
    throw Error(error.kind(), cat(error.what(), " (", source.description(), ")"), error.hint());
  }
}

}  // namespace

std::vector<int64_t> document_positions(const Batch& batch, int64_t eod_token) {
  std::vector<int64_t> positions(batch.inputs.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    const bool begins =
        i % static_cast<size_t>(batch.seq_len) == 0 || batch.inputs[i - 1] == eod_token;
    positions[i] = begins ? 0 : positions[i - 1] + 1;
  }
  return positions;
}

BatchReader::BatchReader(std::unique_ptr<TokenSource> source, const SamplerOptions& options)
    : source_(std::move(source)), sampler_(make_sampler(*source_, options)) {}

Batch BatchReader::read_batch(int64_t first, int64_t count) const {
  AM_ASSERT(count >= 0, "a negative number of sequences");
  const int64_t seq_len = sampler_.options().seq_len;
  Batch batch;
  batch.rows = count;
  batch.seq_len = seq_len;
  batch.inputs.reserve(static_cast<size_t>(count * seq_len));
  batch.labels.reserve(static_cast<size_t>(count * seq_len));
  std::vector<int64_t> tokens(static_cast<size_t>(seq_len) + 1);
  for (int64_t row = 0; row < count; ++row) {
    source_->read(sampler_.sample(first + row) * seq_len, tokens);
    batch.inputs.insert(batch.inputs.end(), tokens.begin(), tokens.end() - 1);
    batch.labels.insert(batch.labels.end(), tokens.begin() + 1, tokens.end());
  }
  return batch;
}

Batch BatchReader::read_micro_batch(int64_t place, int64_t micro_batch,
                                    const BatchLayout& layout) const {
  return read_batch(place + micro_batch_position(micro_batch, layout), layout.micro_batch_size);
}

}  // namespace am::data
