#include "am/launch/environment/slurm.h"

#include <algorithm>

#include "am/base/number.h"
#include "am/base/text.h"

namespace am::launch {
namespace {

// Largest number of nodes in a valid list. The largest clusters have fewer nodes.
constexpr int64_t kMostNodes = 1 << 20;

std::optional<int64_t> positive(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value < 1) return std::nullopt;
  return value;
}

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == ':';
}

}  // namespace

std::optional<std::string> first_slurm_host(std::string_view list) {
  list = trim(list);
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      if (!is_host_character(list[at])) return std::nullopt;
      host += list[at];
      continue;
    }
    const size_t close = list.find(']', at);
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view inside = list.substr(at + 1, close - at - 1);
    const std::string_view first = inside.substr(0, inside.find_first_of(",-"));
    if (first.empty() ||
        !std::all_of(first.begin(), first.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      return std::nullopt;
    }
    host += first;
    at = close;
  }
  if (host.empty()) return std::nullopt;
  return host;
}

std::optional<std::vector<int64_t>> slurm_tasks_per_node(std::string_view text) {
  std::vector<int64_t> tasks;
  for (const std::string& item : split(trim(text), ',')) {
    std::string_view count = trim(item);
    int64_t times = 1;
    if (const size_t open = count.find("(x"); open != std::string_view::npos) {
      if (!ends_with(count, ")")) return std::nullopt;
      const auto given = positive(count.substr(open + 2, count.size() - open - 3));
      if (!given) return std::nullopt;
      times = *given;
      count = count.substr(0, open);
    }
    const auto value = positive(count);
    if (!value || times > kMostNodes - static_cast<int64_t>(tasks.size())) return std::nullopt;
    tasks.insert(tasks.end(), static_cast<size_t>(times), *value);
  }
  if (tasks.empty()) return std::nullopt;
  return tasks;
}

}  // namespace am::launch
