#include "am/data/samples.h"

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/data/chat_files.h"
#include "am/data/fingerprint.h"

namespace am::data {
namespace {

class StreamSamples : public SampleSource {
 public:
  StreamSamples(std::unique_ptr<TokenSource> tokens, const SampleOptions& options)
      : tokens_(std::move(tokens)), options_(options) {
    if (options.seq_len < 1) {
      throw Error(ErrorKind::kPlan, cat("seq_len = ", options.seq_len, " must be at least 1"));
    }
    size_ = (tokens_->size() - 1) / options.seq_len;
    if (tokens_->size() < 1 || size_ < 1) {
      throw Error(ErrorKind::kPlan,
                  cat("the data has ", tokens_->size(),
                      " tokens, but one sample needs seq_len + 1 = ", options.seq_len + 1, " (",
                      tokens_->description(), ")"),
                  "reduce train.seq_len or provide more data");
    }
  }

  int64_t size() const override { return size_; }
  int64_t counted_labels(int64_t /*index*/) const override { return options_.seq_len; }
  int64_t tokens() const override { return tokens_->size(); }
  std::string fingerprint() const override { return data::fingerprint(*tokens_); }
  std::string fingerprint_of_first(int64_t tokens) const override {
    return data::fingerprint(*tokens_, tokens);
  }
  std::string description() const override { return tokens_->description(); }

  void read(int64_t index, SampleRow& row) const override {
    std::vector<int64_t> tokens(static_cast<size_t>(options_.seq_len) + 1);
    tokens_->read(index * options_.seq_len, tokens);
    std::copy(tokens.begin(), tokens.end() - 1, row.inputs.begin());
    std::copy(tokens.begin() + 1, tokens.end(), row.labels.begin());
    for (size_t i = 0; i < row.positions.size(); ++i) {
      const bool begins = i == 0 || tokens[i - 1] == options_.document_end;
      row.positions[i] = begins ? 0 : row.positions[i - 1] + 1;
    }
  }

 private:
  std::unique_ptr<TokenSource> tokens_;
  SampleOptions options_;
  int64_t size_ = 0;
};

}  // namespace

std::unique_ptr<SampleSource> open_samples(const DataSpec& spec, const SampleOptions& options) {
  if (spec.kind == "chat") return open_chat(spec, options);
  if (spec.kind == "synthetic_chat") return make_synthetic_chat(spec, options);
  return cut_into_samples(open_token_source(spec), options);
}

std::unique_ptr<SampleSource> cut_into_samples(std::unique_ptr<TokenSource> tokens,
                                               const SampleOptions& options) {
  return std::make_unique<StreamSamples>(std::move(tokens), options);
}

}  // namespace am::data
