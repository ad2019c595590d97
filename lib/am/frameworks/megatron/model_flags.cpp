#include "am/frameworks/megatron/model_flags.h"

#include <algorithm>
#include <array>
#include <span>

#include "am/base/text.h"
#include "am/frameworks/megatron/config.h"

namespace am::frameworks {

std::vector<Geometry> megatron_geometry(const Source& source) {
  std::vector<Geometry> sizes;
  for (const auto& group : {std::span<const MegatronSize>(kMegatronSizes),
                            std::span<const MegatronSize>(kMegatronExpertSizes)}) {
    for (const auto& [flag, key] : group) {
      const config::Value* value = source.find(flag);
      if (value == nullptr || value->kind != config::Value::Kind::kInteger) continue;
      // Megatron ignores the number of KV heads if --group-query-attention is missing.
      if (key == "num_key_value_heads" && !source.has("group-query-attention")) continue;
      // In a model with experts, --ffn-hidden-size is the experts' width if --moe-ffn-hidden-size
      // is missing. The flag is therefore not compared with intermediate_size.
      if (key == "intermediate_size" && source.has("num-experts")) continue;
      sizes.push_back({cat("--", flag), key, value->integer, value->span});
    }
  }
  return sizes;
}

std::vector<Ignored> megatron_ignored(const Source& source) {
  static constexpr std::array<std::string_view, 11> kOfModel = {
      "group-query-attention",
      "max-position-embeddings",
      "vocab-size",
      "normalization",
      "swiglu",
      "untie-embeddings-and-output-weights",
      "position-embedding-type",
      "rotary-base",
      "disable-bias-linear",
      "use-rotary-position-embeddings",
      "qk-layernorm"};
  const auto has = [](const auto& sizes, std::string_view key) {
    return std::any_of(sizes.begin(), sizes.end(),
                       [key](const MegatronSize& size) { return size.theirs == key; });
  };
  std::vector<Ignored> out = source.ignored("a plan has no key for it");
  for (Ignored& item : out) {
    const bool of_model = std::find(kOfModel.begin(), kOfModel.end(), item.key) != kOfModel.end();
    if (of_model || has(kMegatronSizes, item.key) || has(kMegatronExpertSizes, item.key)) {
      item.why = "the model's config.json has this value";
    }
    item.key.insert(0, "--");
  }
  return out;
}

}  // namespace am::frameworks
