// Synthetic tokens: deterministic in (seed, position), below the vocabulary size, and learnable.
//
// Runs of 64 tokens, each an arithmetic progression modulo min(vocab, 512) with a start and a
// stride (1 to 8) drawn from (seed, run), spread evenly over the vocabulary, so that every rank of
// a vocabulary-parallel layer has work. A model that looks two tokens back can predict all but the
// first two of a run: the loss falls from ln(512) to a few per cent of it.
#pragma once

#include "am/data/token_source.h"

namespace am::data {

class SyntheticTokens : public TokenSource {
 public:
  static constexpr int64_t kRunLength = 64;
  static constexpr int64_t kSize = int64_t{1} << 40;

  // Throws Error(kPlan) if vocab_size < 1.
  SyntheticTokens(int64_t vocab_size, int64_t seed);

  int64_t size() const override { return kSize; }
  void read(int64_t first, std::span<int64_t> out) const override;
  std::string description() const override;

 private:
  int64_t vocab_size_;
  int64_t modulus_;
  int64_t seed_;
};

}  // namespace am::data
