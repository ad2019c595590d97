#include "am/data/examples.h"

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/data/packing.h"

namespace am::data {
namespace {

std::string bytes_of(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

// Numbers of examples that were cut or dropped.
struct LeftOut {
  int64_t cut = 0, dropped = 0, uncounted = 0;

  std::string text() const {
    std::string text;
    if (cut > 0)
      text += cat(", ", format_count(cut), " cut (longer than data.max_length or a row)");
    if (dropped > 0)
      text += cat(", ", format_count(dropped), " dropped (longer than data.max_length or a row)");
    if (uncounted > 0) {
      text += cat(", ", format_count(uncounted), " dropped (no label that counts)");
    }
    return text;
  }
};

class PackedExamples : public SampleSource {
 public:
  PackedExamples(Examples examples, const ExampleOptions& options, const std::string& what)
      : options_(options) {
    const int64_t longest = options.max_length > 0
                                ? std::min(options.max_length, options.seq_len + 1)
                                : options.seq_len + 1;
    LeftOut out;
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < examples.size(); ++i) {
      const auto length = static_cast<int64_t>(examples.ids(i).size());
      if (length > longest && options.drops_long) {
        ++out.dropped;
        continue;
      }
      const int64_t kept = std::min(length, longest);
      const Part part = {i, kept, counted_in(examples, i, kept)};
      if (part.labels == 0) {
        ++out.uncounted;
        continue;
      }
      if (length > longest) ++out.cut;
      parts_.push_back(part);
      lengths.push_back(part.length - 1);
    }
    if (parts_.empty()) {
      throw Error(ErrorKind::kPlan, cat(what, ": no example has a label that counts", out.text()),
                  "data.loss_on chooses the labels that count; data.max_length cuts examples");
    }
    if (options.packs) {
      rows_ = pack_first_fit(lengths, options.seq_len);
    } else {
      for (size_t i = 0; i < parts_.size(); ++i) rows_.push_back({static_cast<int64_t>(i)});
    }
    examples_ = std::move(examples);
    int64_t labels = 0, tokens = 0;
    for (const Part& part : parts_) {
      labels += part.labels;
      tokens += part.length;
    }
    description_ = cat(what, ", ", format_count(static_cast<int64_t>(parts_.size())), " examples, ",
                       format_count(tokens), " tokens, ", format_count(labels), " labels in ",
                       format_count(size()), size() == 1 ? " row" : " rows", out.text());
  }

  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  int64_t tokens() const override { return examples_.tokens(); }
  std::string description() const override { return description_; }

  int64_t counted_labels(int64_t index) const override {
    int64_t count = 0;
    for (const int64_t part : rows_[static_cast<size_t>(index)]) {
      count += parts_[static_cast<size_t>(part)].labels;
    }
    return count;
  }

  void read(int64_t index, SampleRow& row) const override {
    std::fill(row.inputs.begin(), row.inputs.end(), 0);
    std::fill(row.labels.begin(), row.labels.end(), kIgnoredLabel);
    size_t at = 0;
    for (const int64_t number : rows_[static_cast<size_t>(index)]) {
      const Part& part = parts_[static_cast<size_t>(number)];
      const auto ids = examples_.ids(part.example);
      const auto counted = examples_.counted(part.example);
      const auto length = static_cast<size_t>(part.length);
      for (size_t i = 0; i + 1 < length; ++i, ++at) {
        row.inputs[at] = ids[i];
        const size_t mask = fault::is_planted(fault::Fault::kMaskShifted) ? i : i + 1;
        if (counted[mask] != 0) row.labels[at] = ids[i + 1];
        row.positions[at] = static_cast<int64_t>(i);
      }
    }
    const size_t padding = at;
    for (; at < row.positions.size(); ++at) {
      row.positions[at] = static_cast<int64_t>(options_.packs ? at - padding : at);
    }
  }

  // Hashes seq_len, the number of rows, and the token ids and loss masks of all examples. The
  // fingerprint of a token stream, in contrast, hashes only the number of tokens and some tokens.
  std::string fingerprint() const override {
    uint64_t hash = hash_name(cat(options_.seq_len, " ", size()));
    for (int64_t i = 0; i < examples_.size(); ++i) {
      hash ^= hash_name(cat(i, "\n", bytes_of(examples_.ids(i)), bytes_of(examples_.counted(i))));
    }
    return hash_text(hash);
  }

 private:
  // An example as it is trained: the whole example, or its first tokens if it is too long.
  struct Part {
    int64_t example = 0;
    int64_t length = 0;  // number of tokens, at least 2
    int64_t labels = 0;  // number of labels that the loss counts
  };

  // Returns the number of labels that the loss counts among the first `length` tokens of an
  // example. An example's first token is never a label.
  static int64_t counted_in(const Examples& examples, int64_t example, int64_t length) {
    const auto counted = examples.counted(example).first(static_cast<size_t>(length));
    return counted.empty() ? 0 : std::count(counted.begin() + 1, counted.end(), char{1});
  }

  ExampleOptions options_;
  Examples examples_;
  std::vector<Part> parts_;
  std::vector<std::vector<int64_t>> rows_;  // indices into parts_
  std::string description_;
};

}  // namespace

void Examples::add(const Example& example) {
  AM_ASSERT(example.ids.size() == example.counted.size(), "a mask must have an element per token");
  for (const int64_t id : example.ids) ids_.push_back(static_cast<int32_t>(id));
  counted_.insert(counted_.end(), example.counted.begin(), example.counted.end());
  begin_.push_back(static_cast<int64_t>(ids_.size()));
}

std::span<const int32_t> Examples::ids(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  return std::span(ids_).subspan(static_cast<size_t>(begin_[i]),
                                 static_cast<size_t>(begin_[i + 1] - begin_[i]));
}

std::span<const char> Examples::counted(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  return std::span(counted_).subspan(static_cast<size_t>(begin_[i]),
                                     static_cast<size_t>(begin_[i + 1] - begin_[i]));
}

std::unique_ptr<SampleSource> pack_examples(Examples examples, const ExampleOptions& options,
                                            const std::string& what) {
  return std::make_unique<PackedExamples>(std::move(examples), options, what);
}

}  // namespace am::data
