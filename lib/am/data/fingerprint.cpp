#include "am/data/fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "am/base/random.h"

namespace am::data {

std::string fingerprint(const TokenSource& source) { return fingerprint(source, source.size()); }

std::string fingerprint(const TokenSource& source, int64_t size) {
  constexpr int64_t kPieces = 64;
  constexpr int64_t kPieceLength = 32;
  std::vector<int64_t> values = {size};
  std::vector<int64_t> piece(static_cast<size_t>(std::min(kPieceLength, size)));
  const int64_t last = size - static_cast<int64_t>(piece.size());
  for (int64_t i = 0; i < kPieces; ++i) {
    source.read(last / (kPieces - 1) * i + last % (kPieces - 1) * i / (kPieces - 1), piece);
    values.insert(values.end(), piece.begin(), piece.end());
  }
  return hash_text(
      hash_name({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)}));
}

}  // namespace am::data
