#include "am/model/layer_class.h"

namespace am::model {
namespace {

bool names_layer_of(const Family& family, std::string_view name) {
  return name == family.layer_class || name == bare_class_name(family.layer_class);
}

}  // namespace

std::string_view bare_class_name(std::string_view path) {
  return path.substr(path.rfind('.') + 1);  // if there is no dot, npos + 1 is 0
}

const Family* find_layer_class(std::string_view name) {
  for (const Family* family : families()) {
    if (names_layer_of(*family, name)) return family;
  }
  return nullptr;
}

bool is_layer_class(const ModelConfig& config, std::string_view name) {
  return names_layer_of(family_of(config), name);
}

std::vector<std::string> layer_class_names() {
  std::vector<std::string> names;
  for (const Family* family : families()) names.emplace_back(family->layer_class);
  return names;
}

}  // namespace am::model
