// Codecs (see codec.h) for those [strategy] values that are not plain numbers, booleans or words.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "am/config/codec.h"
#include "am/config/strategy_config.h"

namespace am::config {

// Codec of mp_policy, for example { param_dtype = "float32", reduce_dtype = "none" }. Missing keys
// keep their defaults; "none" leaves a dtype unset (see MixedPrecisionPolicy).
struct MixedPrecisionCodec {
  std::optional<MixedPrecisionPolicy> read(const Input& input) const;
  Json write(const MixedPrecisionPolicy& policy) const;
  Json schema() const;
  std::string type() const;
};

// Codec of offload_policy, for example { pin_memory = true }.
struct OffloadCodec {
  std::optional<CPUOffloadPolicy> read(const Input& input) const;
  Json write(const CPUOffloadPolicy& policy) const { return {{"pin_memory", policy.pin_memory}}; }
  Json schema() const;
  std::string type() const { return "{ pin_memory }"; }
};

// Codec of tp_plan: "auto", a registered plan's name, the path of a TOML file, "libmine.so:symbol"
// (a plugin), or a table of pattern = style.
struct TpPlanCodec {
  std::optional<TpPlanSetting> read(const Input& input) const;
  Json write(const TpPlanSetting& setting) const;
  Json schema() const;
  std::string type() const { return "text, or a table of pattern = style"; }
};

// Codec of shard_placement, for example { "model.layers.*.mlp.down_proj.weight" = 1 }.
struct PlacementCodec {
  std::optional<ShardPlacement> read(const Input& input) const;
  Json write(const ShardPlacement& placement) const;
  Json schema() const;
  std::string type() const { return "table of glob = dimension"; }
};

// Codec of activation_checkpointing: false, true, "full", "selective" or "mlp"; true means "full".
struct CheckpointingCodec {
  std::optional<ActivationCheckpointing> read(const Input& input) const;
  Json write(ActivationCheckpointing value) const;
  Json schema() const { return {{"enum", {false, true, "full", "selective", "mlp"}}}; }
  std::string type() const { return "false, true, \"full\", \"selective\" or \"mlp\""; }
};

// Codec of fp8: the name of a recipe in kFp8RecipeSpecs (fp8_recipe.h).
struct Fp8Codec {
  std::optional<Fp8Recipe> read(const Input& input) const;
  Json write(Fp8Recipe value) const;
  Json schema() const;
  std::string type() const;
};

// Codec of reshard_after_forward: true, false, or a number of ranks >= 2.
struct ReshardCodec {
  std::optional<std::variant<bool, int64_t>> read(const Input& input) const;
  Json write(const std::variant<bool, int64_t>& value) const;
  Json schema() const;
  std::string type() const { return "true, false, or an integer >= 2"; }
};

// Returns Megatron's names of the levels of zero_dp_strategy, from level 0: "no_shard", "optim",
// "optim_grads", "optim_grads_params".
const std::vector<std::string>& zero_level_names();

// Codec of zero_dp_strategy: a level from 0 to 3, or Megatron's name of the level.
struct ZeroLevelCodec {
  std::optional<int64_t> read(const Input& input) const;
  Json write(int64_t value) const { return value; }
  Json schema() const;
  std::string type() const;
};

// Reads a table whose keys and values are texts. Returns pairs of a key and its value, in the
// file's order. TOML reads `a.b = "x"` as a table in a table; this function joins the two keys back
// to "a.b".
std::optional<std::vector<std::pair<std::string, std::string>>> read_text_table(const Input& input);

}  // namespace am::config
