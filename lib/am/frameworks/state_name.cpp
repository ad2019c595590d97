#include "am/frameworks/state_name.h"

#include "am/base/text.h"
#include "am/run_folder/shard_index.h"

namespace am::frameworks {

std::optional<StateName> split_state(std::string_view name, bool state_first) {
  constexpr std::string_view kPrefix = run_folder::kOptimizerPrefix;
  if (!starts_with(name, kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const size_t dot = state_first ? name.find('.') : name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  if (state_first) return StateName{name.substr(dot + 1), name.substr(0, dot)};
  return StateName{name.substr(0, dot), name.substr(dot + 1)};
}

}  // namespace am::frameworks
