#include "am/mesh/rank_set.h"

#include <algorithm>
#include <string_view>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"

namespace am::mesh {
namespace {

// Returns a flag for each number below `count`: whether a list such as "1,3-5" contains the number.
// `what` describes the numbers in messages, for example "rank".
std::vector<bool> read_list(std::string_view list, int64_t count, const std::string& what) {
  std::vector<bool> selected(static_cast<size_t>(count), false);
  for (const std::string& part : split(list, ',')) {
    const size_t dash = part.find('-', 1);
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= count || *first > *last) {
      throw Error(ErrorKind::kUsage, cat("there is no ", what, " `", part, "`"),
                  count == 1 ? cat("there is only ", what, " 0") : cat("legal: 0 to ", count - 1));
    }
    std::fill(selected.begin() + *first, selected.begin() + *last + 1, true);
  }
  return selected;
}

}  // namespace

std::optional<std::vector<int64_t>> select_ranks(const MeshLayout& mesh,
                                                 const std::vector<std::string>& words) {
  if (words.empty() || (words.size() == 1 && words.front() == "all")) return std::nullopt;
  const int64_t world = mesh.world_size();
  std::vector<bool> listed(static_cast<size_t>(world), false);
  std::vector<bool> fits(static_cast<size_t>(world), true);
  bool any_list = false;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      any_list = true;
      const std::vector<bool> ranks = read_list(word, world, "rank");
      for (size_t rank = 0; rank < ranks.size(); ++rank) listed[rank] = listed[rank] || ranks[rank];
      continue;
    }
    const std::string name = word.substr(0, equals);
    if (std::find(kGroupNames.begin(), kGroupNames.end(), name) == kGroupNames.end()) {
      throw Error(
          ErrorKind::kUsage, cat("the mesh has no axis `", name, "`"),
          cat("legal: ",
              join(std::vector<std::string>(kGroupNames.begin(), kGroupNames.end()), ", ")));
    }
    const std::vector<bool> indices =
        read_list(word.substr(equals + 1), mesh.group_size(name), cat(name, " index"));
    for (int64_t rank = 0; rank < world; ++rank) {
      if (!indices[static_cast<size_t>(mesh.index(rank, name))]) {
        fits[static_cast<size_t>(rank)] = false;
      }
    }
  }
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < world; ++rank) {
    const auto i = static_cast<size_t>(rank);
    if (fits[i] && (listed[i] || !any_list)) ranks.push_back(rank);
  }
  if (ranks.empty()) {
    throw Error(ErrorKind::kUsage, cat("no rank satisfies `", join(words, " "), "`"),
                "`mesh` shows the coordinates of all ranks");
  }
  return ranks;
}

}  // namespace am::mesh
