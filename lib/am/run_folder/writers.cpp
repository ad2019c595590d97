#include "am/run_folder/writers.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace am::run_folder {

std::vector<int64_t> choose_writers(const std::vector<HeldBox>& boxes) {
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return boxes[a].bytes > boxes[b].bytes; });
  std::vector<int64_t> writers(boxes.size(), 0);
  // loads[holders][copy]: number of bytes assigned so far to copy number `copy` of the boxes with
  // these HeldBox::holders.
  std::map<std::string, std::vector<int64_t>> loads;
  for (const size_t i : order) {
    if (boxes[i].replicas < 2) continue;
    auto& load = loads[boxes[i].holders];
    load.resize(static_cast<size_t>(boxes[i].replicas));
    const auto least = std::min_element(load.begin(), load.end());
    *least += boxes[i].bytes;
    writers[i] = least - load.begin();
  }
  return writers;
}

}  // namespace am::run_folder
