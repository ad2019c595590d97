// Examples for fine-tuning: token ids, of which the loss counts only some.
//
//   Examples examples;
//   examples.add({.ids = {1, 7, 8, 2}, .counted = {false, false, true, true}});
//   const auto samples = pack_examples(std::move(examples), {.seq_len = 128}, "chat: a.jsonl");
//
// A row holds one or more examples, none of which continues in another row, and then padding. The
// positions of each example begin at 0, so that attention stays inside of it. An example of n
// tokens takes n - 1 positions: its last token is only a label.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "am/data/samples.h"

namespace am::data {

struct Example {
  std::vector<int64_t> ids;
  std::vector<bool> counted;  // for each token: whether the loss counts its prediction
};

// Examples in order, 5 bytes per token.
class Examples {
 public:
  // Adds an example. Ids must be below 2^31.
  void add(const Example& example);

  int64_t size() const { return static_cast<int64_t>(begin_.size()) - 1; }
  int64_t tokens() const { return begin_.back(); }
  std::span<const int32_t> ids(int64_t index) const;
  std::span<const char> counted(int64_t index) const;  // 0 or 1 for each token

 private:
  std::vector<int32_t> ids_;
  std::vector<char> counted_;
  std::vector<int64_t> begin_ = {0};  // index of each example's first token, and the end
};

struct ExampleOptions {
  int64_t seq_len = 0;
  int64_t max_length = 0;   // longest example in tokens, at most seq_len + 1; 0: seq_len + 1
  bool drops_long = false;  // leaves longer examples out, instead of cutting their ends off
  bool packs = true;        // several examples per row, instead of one
};

// Returns the examples as rows. Leaves out examples without a counted label. Throws Error(kPlan) if
// none is left. `what` describes the data, for example "chat: a.jsonl".
std::unique_ptr<SampleSource> pack_examples(Examples examples, const ExampleOptions& options,
                                            const std::string& what);

}  // namespace am::data
