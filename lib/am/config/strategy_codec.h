// Codecs of [strategy] values other than numbers and words.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "am/config/codec.h"
#include "am/config/strategy_config.h"

namespace am::config {

// mp_policy = { param_dtype = "float32", ... }: missing keys keep their defaults, "none" means "as
// stored".
struct MixedPrecisionCodec {
  std::optional<MixedPrecisionPolicy> read(const Input& input) const;
  Json write(const MixedPrecisionPolicy& policy) const;
  Json schema() const;
  std::string type() const;
};

// offload_policy = { pin_memory = true }
struct OffloadCodec {
  std::optional<CPUOffloadPolicy> read(const Input& input) const;
  Json write(const CPUOffloadPolicy& policy) const { return {{"pin_memory", policy.pin_memory}}; }
  Json schema() const;
  std::string type() const { return "{ pin_memory }"; }
};

// "auto", a name, a file, "libmine.so:symbol"; or a table of pattern = style.
struct TpPlanCodec {
  std::optional<TpPlanSetting> read(const Input& input) const;
  Json write(const TpPlanSetting& setting) const;
  Json schema() const;
  std::string type() const { return "text, or a table of pattern = style"; }
};

// { "model.layers.*.mlp.down_proj.weight" = 1 }
struct PlacementCodec {
  std::optional<ShardPlacement> read(const Input& input) const;
  Json write(const ShardPlacement& placement) const;
  Json schema() const;
  std::string type() const { return "table of glob = dimension"; }
};

// false, true, "full", "selective" or "mlp"; true is "full".
struct CheckpointingCodec {
  std::optional<ActivationCheckpointing> read(const Input& input) const;
  Json write(ActivationCheckpointing value) const;
  Json schema() const { return {{"enum", {false, true, "full", "selective", "mlp"}}}; }
  std::string type() const { return "false, true, \"full\", \"selective\" or \"mlp\""; }
};

// true, false, or a number of ranks >= 2.
struct ReshardCodec {
  std::optional<std::variant<bool, int64_t>> read(const Input& input) const;
  Json write(const std::variant<bool, int64_t>& value) const;
  Json schema() const;
  std::string type() const { return "true, false, or an integer >= 2"; }
};

// Megatron's names of the levels of zero_dp_strategy, from 0: "no_shard", "optim", ...
const std::vector<std::string>& zero_level_names();

// 0 to 3, or Megatron's name of the level.
struct ZeroLevelCodec {
  std::optional<int64_t> read(const Input& input) const;
  Json write(int64_t value) const { return value; }
  Json schema() const;
  std::string type() const;
};

// Reads a table of text = text in the file's order. TOML nests `a.b = "x"`; this joins it back to
// the key "a.b".
std::optional<std::vector<std::pair<std::string, std::string>>> read_text_table(const Input& input);

}  // namespace am::config
