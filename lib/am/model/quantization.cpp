#include "am/model/quantization.h"

#include <array>

namespace am::model {

namespace {

// Config keys that describe a quantisation: the key of transformers, and the key in older files of
// the compressed-tensors library.
constexpr std::array<const char*, 2> kKeys = {"quantization_config", "compression_config"};

}  // namespace

std::string quantization_of(const std::string& config_text) {
  const Json config = Json::parse(config_text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return {};
  for (const char* key : kKeys) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    const bool named = found->is_object() && found->contains("quant_method") &&
                       (*found)["quant_method"].is_string();
    return named ? (*found)["quant_method"].get<std::string>() : "unknown";
  }
  return {};
}

void remove_quantization(Json& config) {
  for (const char* key : kKeys) config.erase(key);
}

}  // namespace am::model
