#include "am/config/strategy_codec.h"

#include <algorithm>

#include "am/base/text.h"
#include "am/config/table_codec.h"

namespace am::config {
namespace {

constexpr std::string_view kAsStored = "none";

// Returns a codec that accepts a dtype's name or "none".
Choice stored_or_dtype() {
  Choice choice = dtype_choice();
  choice.names.emplace_back(kAsStored);
  return choice;
}

void set_dtype(const Input& input, std::optional<std::string>& dtype) {
  const auto name = stored_or_dtype().read(input);
  if (!name) return;
  dtype = *name == kAsStored ? std::nullopt : name;
}

void set_boolean(const Input& input, bool& flag) {
  if (const auto value = Boolean{}.read(input)) flag = *value;
}

Json with_default(Json schema, const Json& value) {
  schema["default"] = value;
  return schema;
}

}  // namespace

// ---- mp_policy, offload_policy -------------------------------------------------------------------

std::optional<MixedPrecisionPolicy> MixedPrecisionCodec::read(const Input& input) const {
  MixedPrecisionPolicy policy;
  const auto assign = [&](const std::string& key, const Input& part) {
    if (key == "param_dtype") {
      set_dtype(part, policy.param_dtype);
    } else if (key == "reduce_dtype") {
      set_dtype(part, policy.reduce_dtype);
    } else if (key == "output_dtype") {
      set_dtype(part, policy.output_dtype);
    } else if (key == "cast_forward_inputs") {
      set_boolean(part, policy.cast_forward_inputs);
    } else {
      return false;
    }
    return true;
  };
  const bool good = read_members(
      input, {"param_dtype", "reduce_dtype", "output_dtype", "cast_forward_inputs"}, assign);
  return good ? std::optional(policy) : std::nullopt;
}

Json MixedPrecisionCodec::write(const MixedPrecisionPolicy& policy) const {
  const Optional<Choice> dtype{stored_or_dtype()};
  Json out = Json::object();
  out["param_dtype"] = dtype.write(policy.param_dtype);
  out["reduce_dtype"] = dtype.write(policy.reduce_dtype);
  out["output_dtype"] = dtype.write(policy.output_dtype);
  out["cast_forward_inputs"] = policy.cast_forward_inputs;
  return out;
}

Json MixedPrecisionCodec::schema() const {
  const MixedPrecisionPolicy defaults;
  const Json dtype = stored_or_dtype().schema();
  Json properties = Json::object();
  for (const auto& [key, value] : {std::pair{"param_dtype", &defaults.param_dtype},
                                   {"reduce_dtype", &defaults.reduce_dtype},
                                   {"output_dtype", &defaults.output_dtype}}) {
    properties[key] = with_default(dtype, value->value_or(std::string(kAsStored)));
  }
  properties["cast_forward_inputs"] =
      with_default(Boolean{}.schema(), defaults.cast_forward_inputs);
  return closed_object(std::move(properties));
}

std::string MixedPrecisionCodec::type() const {
  return "{ param_dtype, reduce_dtype, output_dtype, cast_forward_inputs }";
}

std::optional<CPUOffloadPolicy> OffloadCodec::read(const Input& input) const {
  CPUOffloadPolicy policy;
  const bool good = read_members(input, {"pin_memory"}, [&](const auto& key, const Input& part) {
    if (key != "pin_memory") return false;
    set_boolean(part, policy.pin_memory);
    return true;
  });
  return good ? std::optional(policy) : std::nullopt;
}

Json OffloadCodec::schema() const {
  Json properties = Json::object();
  properties["pin_memory"] = with_default(Boolean{}.schema(), CPUOffloadPolicy{}.pin_memory);
  return closed_object(std::move(properties));
}

// ---- tp_plan -------------------------------------------------------------------------------------

namespace {

template <typename T>
using Table = std::vector<std::pair<std::string, T>>;

template <typename T, typename Codec>
void flatten(const Input& input, const Codec& codec, const std::string& prefix, Table<T>& out) {
  for (const Member& member : input.value.members) {
    const Input part = input.part(member.value, member.key);
    if (member.value.is_table()) {
      flatten(part, codec, cat(prefix, member.key, "."), out);
    } else if (auto value = codec.read(part)) {
      part.check_glob(prefix + member.key);
      out.emplace_back(prefix + member.key, std::move(*value));
    }
  }
}

template <typename T, typename Codec>
std::optional<Table<T>> read_flat(const Input& input, const Codec& codec) {
  const int errors = input.found.errors();
  Table<T> table;
  flatten(input, codec, "", table);
  return input.found.errors() == errors ? std::optional(std::move(table)) : std::nullopt;
}

// Codec of the index of a tensor's dim, from 0 to 7, because parameters have at most 8 dims.
constexpr Integer kDimension{0, 7};

}  // namespace

std::optional<Table<std::string>> read_text_table(const Input& input) {
  return read_flat<std::string>(input, Text{});
}

std::optional<ShardPlacement> PlacementCodec::read(const Input& input) const {
  if (input.value.is_table()) return read_flat<int64_t>(input, kDimension);
  input.wrong_type("a table", "{ \"model.layers.*.mlp.down_proj.weight\" = 1 }");
  return std::nullopt;
}

Json PlacementCodec::write(const ShardPlacement& placement) const {
  Json table = Json::object();
  for (const auto& [pattern, dim] : placement) table[pattern] = dim;
  return table;
}

Json PlacementCodec::schema() const {
  return {{"type", "object"}, {"additionalProperties", kDimension.schema()}};
}

std::optional<TpPlanSetting> TpPlanCodec::read(const Input& input) const {
  TpPlanSetting setting;
  if (input.value.kind == Value::Kind::kText) {
    auto text = Text{}.read(input);
    if (!text) return std::nullopt;
    setting.text = std::move(*text);
    return setting;
  }
  if (!input.value.is_table()) {
    input.wrong_type("text or a table", "\"auto\", a file, a name, or pattern = style");
    return std::nullopt;
  }
  auto table = read_text_table(input);
  if (!table) return std::nullopt;
  if (table->empty()) {
    input.bad_value(" is an empty table", "legal: \"auto\", a file, or pattern = style");
    return std::nullopt;
  }
  setting.text.clear();
  setting.table = std::move(*table);
  return setting;
}

Json TpPlanCodec::write(const TpPlanSetting& setting) const {
  if (setting.table.empty()) return setting.text;
  Json table = Json::object();
  for (const auto& [pattern, style] : setting.table) table[pattern] = style;
  return table;
}

Json TpPlanCodec::schema() const {
  const Json text = Text{}.schema();
  return {{"anyOf", {text, {{"type", "object"}, {"additionalProperties", text}}}}};
}

// ---- activation_checkpointing, reshard_after_forward, zero_dp_strategy ---------------------------

std::optional<ActivationCheckpointing> CheckpointingCodec::read(const Input& input) const {
  const Value& value = input.value;
  if (value.kind == Value::Kind::kBoolean) {
    return value.boolean ? ActivationCheckpointing::kFull : ActivationCheckpointing::kOff;
  }
  if (value.kind != Value::Kind::kText) {
    input.wrong_type("a boolean or text", type());
    return std::nullopt;
  }
  const auto name = Choice{{"full", "selective", "mlp"}}.read(input);
  if (!name) return std::nullopt;
  if (*name == "mlp") return ActivationCheckpointing::kMlp;
  return *name == "full" ? ActivationCheckpointing::kFull : ActivationCheckpointing::kSelective;
}

Json CheckpointingCodec::write(ActivationCheckpointing value) const {
  if (value == ActivationCheckpointing::kOff) return false;
  if (value == ActivationCheckpointing::kMlp) return "mlp";
  return value == ActivationCheckpointing::kFull ? "full" : "selective";
}

namespace {

const Choice& fp8_recipes() {
  static const Choice names = [] {
    Choice all;
    for (const Fp8RecipeSpec& recipe : kFp8RecipeSpecs) all.names.emplace_back(recipe.name);
    return all;
  }();
  return names;
}

}  // namespace

std::optional<Fp8Recipe> Fp8Codec::read(const Input& input) const {
  const auto name = fp8_recipes().read(input);
  if (!name) return std::nullopt;
  const auto* known = std::find_if(kFp8RecipeSpecs.begin(), kFp8RecipeSpecs.end(),
                                   [&](const Fp8RecipeSpec& one) { return one.name == *name; });
  return known->recipe;
}

Json Fp8Codec::write(Fp8Recipe value) const { return Json(spec_of(value).name); }

Json Fp8Codec::schema() const { return fp8_recipes().schema(); }
std::string Fp8Codec::type() const { return fp8_recipes().type(); }

std::optional<std::variant<bool, int64_t>> ReshardCodec::read(const Input& input) const {
  if (input.value.kind == Value::Kind::kBoolean) return input.value.boolean;
  if (input.value.kind != Value::Kind::kInteger) {
    input.wrong_type("a boolean or an integer", type());
    return std::nullopt;
  }
  const int64_t ranks = input.value.integer;
  if (ranks < 2) {
    const char* instead = ranks == 0   ? "write false to keep parameters gathered"
                          : ranks == 1 ? "write false: a group of one rank holds whole parameters"
                                       : "legal: true, false, or a number of ranks from 2 on";
    input.out_of_range(cat(" = ", ranks, " is out of range"), instead);
    return std::nullopt;
  }
  return ranks;
}

Json ReshardCodec::write(const std::variant<bool, int64_t>& value) const {
  return std::visit([](const auto& alternative) { return Json(alternative); }, value);
}

Json ReshardCodec::schema() const {
  return {{"anyOf", {{{"type", "boolean"}}, Integer{2}.schema()}}};
}

namespace {

const Choice& zero_levels() {
  static const Choice levels{{"no_shard", "optim", "optim_grads", "optim_grads_params"}};
  return levels;
}

}  // namespace

const std::vector<std::string>& zero_level_names() { return zero_levels().names; }

std::optional<int64_t> ZeroLevelCodec::read(const Input& input) const {
  if (input.value.kind != Value::Kind::kText) return Integer{0, 3}.read(input);
  const auto name = zero_levels().read(input);
  if (!name) return std::nullopt;
  const auto& names = zero_level_names();
  return std::find(names.begin(), names.end(), *name) - names.begin();
}

Json ZeroLevelCodec::schema() const {
  return {{"anyOf", {Integer{0, 3}.schema(), zero_levels().schema()}}};
}

std::string ZeroLevelCodec::type() const { return cat("0 to 3, or ", zero_levels().type()); }

}  // namespace am::config
