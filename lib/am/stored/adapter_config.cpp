#include "am/stored/adapter_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/number.h"
#include "am/base/text.h"

namespace am::stored {

namespace {

// Keys of adapter_config.json (as of PEFT 0.21) that is_neutral() accepts with any value.
// check_adapter_config() itself checks peft_type, r, lora_alpha, use_dora and use_rslora. With any
// value of the other keys, an adapter is the product of A and B, with one rank and one scaling
// factor. The tensors' names show which layers have adapters, and which modules are saved.
constexpr std::array<std::string_view, 22> kNeutralKeys = {
    "auto_mapping",      "base_model_name_or_path",
    "eva_config",        "exclude_modules",
    "fan_in_fan_out",    "inference_mode",
    "layers_pattern",    "layers_to_transform",
    "lora_alpha",        "lora_dropout",
    "megatron_core",     "modules_to_save",
    "peft_type",         "peft_version",
    "qalora_group_size", "r",
    "revision",          "runtime_config",
    "target_modules",    "task_type",
    "use_dora",          "use_rslora"};

// Values of init_lora_weights, besides true and false, that leave the base model unchanged. Other
// values, for example "pissa", "olora" and "loftq", derive A and B from the base model's weights
// and change these weights.
constexpr std::array<std::string_view, 3> kNeutralBeginnings = {"gaussian", "eva", "orthogonal"};

bool is_neutral(const std::string& key, const Json& value) {
  const auto among = [](const auto& list, std::string_view text) {
    return std::find(list.begin(), list.end(), text) != list.end();
  };
  if (value.is_null() || value == Json(false) || among(kNeutralKeys, key)) return true;
  if (key == "bias") return value == Json("none");
  if (key == "init_lora_weights") {
    return value.is_boolean() ||
           (value.is_string() && among(kNeutralBeginnings, value.get<std::string>()));
  }
  return (value.is_structured() || value.is_string()) && value.empty();
}

// Returns the keys whose values may make an adapter more than a product of A and B with one rank
// and one scaling factor. Unknown keys count, unless their value is null, false or empty.
std::vector<std::string> not_plain(const Json& config) {
  std::vector<std::string> found;
  for (const auto& [key, value] : config.items()) {
    if (is_neutral(key, value)) continue;
    found.push_back(value.is_string() ? cat(key, " = ", dump_json(value, -1)) : key);
  }
  return found;
}

}  // namespace

void check_adapter_config(std::string_view text, const std::string& file,
                          const model::AdapterSpec& ours) {
  const Json config = parse_json_object(text, file);
  if (const Json kind = config.value("peft_type", Json("LORA")); kind != Json("LORA")) {
    throw Error(ErrorKind::kFormat,
                cat(file, ": peft_type is ", dump_json(kind, -1), ", not \"LORA\""));
  }
  if (const auto more = not_plain(config); !more.empty()) {
    throw Error(ErrorKind::kFormat, cat(file, ": ", join(more, ", "), " is not supported"),
                "only LoRA and DoRA adapters with one rank and one scaling factor are supported; "
                "merge other adapters into their base model first (PEFT's merge_and_unload)");
  }
  const Json rank = config.value("r", Json()), alpha = config.value("lora_alpha", Json());
  if (!rank.is_number_integer() || rank.get<int64_t>() < 1 || !alpha.is_number() ||
      !std::isfinite(alpha.get<double>())) {
    throw Error(ErrorKind::kFormat, cat(file,
                                        ": r and lora_alpha must be numbers, r an integer of "
                                        "at least 1"));
  }
  if (rank.get<int64_t>() != ours.rank) {
    throw Error(ErrorKind::kFormat,
                cat(file, ": its adapters have the rank ", rank.get<int64_t>(),
                    ", but lora.rank of the plan is ", ours.rank),
                cat("lora.rank = ", rank.get<int64_t>()));
  }
  if (const bool dora = config.value("use_dora", Json(false)) == Json(true); dora != ours.dora) {
    throw Error(ErrorKind::kFormat,
                cat(file, dora ? ": its adapters are DoRA, but the plan's are LoRA"
                               : ": its adapters are LoRA, but the plan's are DoRA"),
                cat("lora.use_dora = ", dora ? "true" : "false"));
  }
  const double r = as_double(ours.rank);
  const Json root = config.value("use_rslora", Json(false));
  if (!root.is_boolean() && !root.is_null()) {
    throw Error(ErrorKind::kFormat, cat(file, ": use_rslora is neither true nor false"));
  }
  const double scale = alpha.get<double>() / (root == Json(true) ? std::sqrt(r) : r);
  if (std::abs(scale - ours.scale) > 1e-9 * std::abs(scale)) {
    throw Error(ErrorKind::kFormat,
                cat(file, ": the scaling factor of its adapters is ", scale,
                    ", but that of the plan is ", ours.scale),
                cat("lora.alpha = ", alpha.get<double>(),
                    ", lora.use_rslora = ", root == Json(true) ? "true" : "false"));
  }
}

}  // namespace am::stored
