#include "am/nn/experts/row_chunks.h"

#include <algorithm>

namespace am::nn {

std::vector<std::vector<int64_t>> row_chunks(const std::vector<int64_t>& rows, int64_t even) {
  std::vector<std::vector<int64_t>> chunks(1, std::vector<int64_t>(rows.size(), 0));
  if (even == 0) return {rows};
  int64_t room = 2 * even;
  for (size_t e = 0; e < rows.size(); ++e) {
    for (int64_t left = rows[e]; left > 0;) {
      if (room == 0) {
        chunks.emplace_back(rows.size(), 0);
        room = even;
      }
      const int64_t here = std::min(left, room);
      chunks.back()[e] = here;
      left -= here;
      room -= here;
    }
  }
  return chunks;
}

}  // namespace am::nn
