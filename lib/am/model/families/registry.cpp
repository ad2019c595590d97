#include <algorithm>
#include <array>

#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr std::array<const Family*, 4> kFamilies = {&kLlama, &kMistral, &kQwen2, &kQwen3};

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family* family) {
    return family->model_type == model_type;
  });
  return found == kFamilies.end() ? nullptr : *found;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family* family : kFamilies) names.emplace_back(family->model_type);
  return names;
}

}  // namespace am::model
