// Examples for fine-tuning: token ids, and a mask of the tokens that the loss counts.
//
//   Examples examples;
//   examples.add({.ids = {1, 7, 8, 2}, .counted = {false, false, true, true}});
//   const auto samples = pack_examples(std::move(examples), {.seq_len = 128}, "chat: a.jsonl");
//
// A row holds one or more whole examples, and then padding. The position ids of each example begin
// at 0, so attention does not cross from one example to another. The last token of an example is
// only a label, so an example of n tokens occupies n - 1 positions of a row.
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

// A list of examples, stored in 5 bytes per token (id and mask).
class Examples {
 public:
  // Appends an example. Ids must be below 2^31.
  void add(const Example& example);

  int64_t size() const { return static_cast<int64_t>(begin_.size()) - 1; }
  int64_t tokens() const { return begin_.back(); }
  std::span<const int32_t> ids(int64_t index) const;
  std::span<const char> counted(int64_t index) const;  // 0 or 1 for each token

 private:
  std::vector<int32_t> ids_;
  std::vector<char> counted_;
  std::vector<int64_t> begin_ = {0};  // index of each example's first token; last: number of tokens
};

struct ExampleOptions {
  int64_t seq_len = 0;
  int64_t max_length = 0;   // maximum tokens per example; 0 or above seq_len + 1: seq_len + 1
  bool drops_long = false;  // leaves longer examples out, instead of cutting their ends off
  bool packs = true;        // several examples per row, instead of one
};

// Returns the examples, arranged in rows of seq_len positions. Leaves out examples without a label
// that the loss counts. Throws Error(kPlan) if no example remains. `what` describes the data, for
// example "chat: a.jsonl".
std::unique_ptr<SampleSource> pack_examples(Examples examples, const ExampleOptions& options,
                                            const std::string& what);

}  // namespace am::data
