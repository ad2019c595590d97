#include "am/data/synthetic.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/random.h"
#include "am/base/text.h"

namespace am::data {
namespace {

constexpr int64_t kLargestModulus = 512;
constexpr int64_t kStrides = 8;

}  // namespace

SyntheticTokens::SyntheticTokens(int64_t vocab_size, int64_t seed)
    : vocab_size_(vocab_size), modulus_(std::min(vocab_size, kLargestModulus)), seed_(seed) {
  if (vocab_size < 1) {
    throw Error(ErrorKind::kPlan,
                cat("synthetic data needs a vocabulary, not one of ", vocab_size));
  }
}

void SyntheticTokens::read(int64_t first, std::span<int64_t> out) const {
  AM_ASSERT(first >= 0 && first + static_cast<int64_t>(out.size()) <= kSize, "beyond the tokens");
  int64_t run = -1;
  int64_t start = 0;
  int64_t stride = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t position = first + static_cast<int64_t>(i);
    if (position / kRunLength != run) {
      run = position / kRunLength;
      const auto words = philox4x32(static_cast<uint64_t>(seed_), static_cast<uint64_t>(run), 0);
      start = words[0] % modulus_;
      stride = 1 + words[1] % kStrides;
    }
    const int64_t value = (start + stride * (position % kRunLength)) % modulus_;
    out[i] = value * vocab_size_ / modulus_;
  }
}

std::string SyntheticTokens::description() const {
  return cat("synthetic: arithmetic progressions modulo ", modulus_, ", seed ", seed_);
}

}  // namespace am::data
