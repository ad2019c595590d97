#include "am/nn/runnable.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "am/base/json.h"
#include "am/base/text.h"

namespace am::nn {
namespace {

class Refusals {
 public:
  Refusals(const model::ModelConfig& config, Diagnostics& found) : config_(config), found_(found) {}

  void add(std::string_view key, const std::string& what, std::string help) {
    found_.error("runtime.unsupported", find_json_key(config_.text, config_.file, key),
                 cat(what, " can be planned, but this version of am-run cannot run it"),
                 std::move(help));
  }

 private:
  const model::ModelConfig& config_;
  Diagnostics& found_;
};

// The key that the config spells its rotary embedding with.
std::string_view rope_key(const model::ModelConfig& config) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (find_json_key(config.text, config.file, key).line > 0) return key;
  }
  return "model_type";
}

}  // namespace

const std::vector<std::string>& runnable_families() {
  static const std::vector<std::string> names = {"llama", "mistral", "qwen2", "qwen3"};
  return names;
}

void check_runnable(const model::ModelConfig& config, Diagnostics& found) {
  const auto& known = runnable_families();
  Refusals refusals(config, found);
  const std::string help = cat("model types that run: ", join(known, ", "));
  if (std::find(known.begin(), known.end(), config.model_type) == known.end()) {
    refusals.add("model_type", cat("model_type \"", config.model_type, "\""), help);
    return;
  }
  if (!config.wrapped_in.empty()) {
    refusals.add("model_type", cat("the text part of a ", config.wrapped_in, " model"), help);
    return;
  }
  const model::RopeConfig& rope = config.rope;
  if (rope.type != "default" && rope.type != "linear" && rope.type != "llama3") {
    refusals.add(rope_key(config), cat("a rotary embedding of type \"", rope.type, "\""),
                 "types that run: default, linear, llama3");
  }
  if (rope.rotated_part != 1.0) {
    refusals.add("partial_rotary_factor",
                 cat("a rotary embedding of a part of the head (", rope.rotated_part, ")"),
                 "partial_rotary_factor = 1 runs");
  }
  if (config.hidden_act != "silu") {
    refusals.add("hidden_act", cat("hidden_act \"", config.hidden_act, "\""), "silu runs");
  }
}

void check_trainable(const model::ModelConfig& config, Diagnostics& found) {
  check_runnable(config, found);
  if (config.attention_dropout <= 0.0) return;
  found.error("runtime.unsupported", find_json_key(config.text, config.file, "attention_dropout"),
              cat("attention_dropout = ", config.attention_dropout,
                  " in training: this version of am-run has no dropout in attention"),
              "attention_dropout = 0.0 trains, without it");
}

}  // namespace am::nn
