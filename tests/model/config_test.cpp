#include "am/model/config.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/family.h"
#include "support/folders.h"

namespace {

using am::Diagnostics;
using am::Json;
using am::model::ModelConfig;

Json llama() {
  return Json{{"model_type", "llama"},        {"vocab_size", 100},      {"hidden_size", 32},
              {"intermediate_size", 64},      {"num_hidden_layers", 2}, {"num_attention_heads", 4},
              {"max_position_embeddings", 64}};
}

Json with(Json json, const Json& changes) {
  json.update(changes);
  return json;
}

Json without(Json json, const std::string& key) {
  json.erase(key);
  return json;
}

ModelConfig parse(const Json& json) {
  Diagnostics found;
  const auto config = am::model::parse_config(json.dump(2), "config.json", found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(config.has_value());
  return *config;
}

std::vector<std::string> rules(const std::string& text) {
  Diagnostics found;
  const auto config = am::model::parse_config(text, "config.json", found);
  CHECK_FALSE(config.has_value());
  std::vector<std::string> ids;
  for (const auto& item : found.items()) ids.push_back(item.rule);
  return ids;
}

std::vector<std::string> rules(const Json& json) { return rules(json.dump(2)); }

using Ids = std::vector<std::string>;

TEST_CASE("llama's defaults are transformers'") {
  const ModelConfig config = parse(llama());
  CHECK(config.num_key_value_heads == 4);
  CHECK(config.head_dim == 8);
  CHECK(config.rms_norm_eps == 1e-6);
  CHECK(config.initializer_range == 0.02);
  CHECK_FALSE(config.tie_word_embeddings);
  CHECK_FALSE(config.qkv_bias);
  CHECK_FALSE(config.o_bias);
  CHECK_FALSE(config.mlp_bias);
  CHECK_FALSE(config.qk_norm);
  CHECK_FALSE(config.sliding_window.has_value());
  CHECK(config.rope.type == "default");
  CHECK(config.rope.theta == 10000.0);
  CHECK(config.dtype == "float32");
  CHECK(parse(without(llama(), "max_position_embeddings")).max_position_embeddings == 2048);
}

TEST_CASE("llama's biases") {
  const ModelConfig config = parse(with(llama(), {{"attention_bias", true}, {"mlp_bias", true}}));
  CHECK(config.qkv_bias);
  CHECK(config.o_bias);
  CHECK(config.mlp_bias);
}

TEST_CASE("each class has its own default for key/value heads and head size") {
  const Json mistral = with(llama(), {{"model_type", "mistral"}, {"num_attention_heads", 16}});
  CHECK(parse(mistral).num_key_value_heads == 8);
  CHECK(parse(with(mistral, {{"num_key_value_heads", nullptr}})).num_key_value_heads == 16);
  CHECK(parse(mistral).head_dim == 2);
  const Json qwen3 = with(llama(), {{"model_type", "qwen3"}, {"num_key_value_heads", 2}});
  CHECK(parse(qwen3).head_dim == 128);
  CHECK(parse(with(qwen3, {{"head_dim", 16}})).head_dim == 16);
  CHECK(rules(with(llama(), {{"model_type", "qwen2"}})) == Ids{"model.heads"});
}

TEST_CASE("the qwens' biases and norms") {
  const Json kv = {{"num_key_value_heads", 2}};
  const ModelConfig qwen2 = parse(with(with(llama(), kv), {{"model_type", "qwen2"}}));
  CHECK(qwen2.qkv_bias);
  CHECK_FALSE(qwen2.o_bias);
  CHECK_FALSE(qwen2.qk_norm);
  const ModelConfig qwen3 = parse(with(with(llama(), kv), {{"model_type", "qwen3"}}));
  CHECK_FALSE(qwen3.qkv_bias);
  CHECK(qwen3.qk_norm);
  const ModelConfig biased =
      parse(with(with(llama(), kv), {{"model_type", "qwen3"}, {"attention_bias", true}}));
  CHECK(biased.qkv_bias);
  CHECK(biased.o_bias);
}

TEST_CASE("mistral's window covers every layer; null switches it off") {
  const Json mistral = with(llama(), {{"model_type", "mistral"}, {"num_key_value_heads", 4}});
  CHECK(parse(mistral).sliding_window == 4096);
  CHECK(parse(with(mistral, {{"sliding_window", 8}})).sliding_window == 8);
  CHECK(parse(with(mistral, {{"sliding_window", 8}})).window_first_layer == 0);
  CHECK_FALSE(parse(with(mistral, {{"sliding_window", nullptr}})).sliding_window.has_value());
}

TEST_CASE("qwen's window needs use_sliding_window and starts at max_window_layers") {
  const Json qwen =
      with(llama(), {{"model_type", "qwen2"}, {"num_key_value_heads", 4}, {"sliding_window", 16}});
  CHECK_FALSE(parse(qwen).sliding_window.has_value());
  const Json on = with(qwen, {{"use_sliding_window", true}});
  CHECK(parse(on).sliding_window == 16);
  CHECK(parse(on).window_first_layer == 28);
  CHECK(parse(with(on, {{"max_window_layers", 1}})).window_first_layer == 1);
  const Json types = {"full_attention", "sliding_attention"};
  CHECK(parse(with(on, {{"layer_types", types}})).window_first_layer == 1);
  const ModelConfig mixed =
      parse(with(on, {{"layer_types", {"sliding_attention", "full_attention"}}}));
  CHECK(am::model::window_of(mixed, 0) == 16);
  CHECK_FALSE(am::model::window_of(mixed, 1).has_value());
  CHECK(rules(with(on, {{"layer_types", Json{"full_attention"}}})) == Ids{"model.type"});
  CHECK(rules(with(on, {{"layer_types", {"full_attention", "linear_attention"}}})) ==
        Ids{"model.value"});
}

TEST_CASE("the rotary embedding's old and new spellings say the same") {
  const Json details = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 16}};
  const auto check = [](const ModelConfig& config) {
    CHECK(config.rope.type == "llama3");
    CHECK(config.rope.theta == 5000.0);
    CHECK(config.rope.factor == 8.0);
    CHECK(config.rope.high_freq_factor == 4.0);
    CHECK(config.rope.original_max_position_embeddings == 16);
  };
  check(parse(with(llama(), {{"rope_theta", 5000.0},
                             {"rope_scaling", with(details, {{"rope_type", "llama3"}})}})));
  check(parse(with(llama(),
                   {{"rope_theta", 5000}, {"rope_scaling", with(details, {{"type", "llama3"}})}})));
  check(parse(with(llama(), {{"rope_parameters",
                              with(details, {{"rope_type", "llama3"}, {"rope_theta", 5000.0}})}})));
  const Json short_form =
      without(with(details, {{"rope_type", "llama3"}}), "original_max_position_embeddings");
  CHECK(
      parse(with(llama(), {{"rope_scaling", short_form}})).rope.original_max_position_embeddings ==
      64);
  CHECK(parse(with(llama(), {{"rope_scaling", nullptr}})).rope.type == "default");
  CHECK(
      parse(with(llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}})).rope.factor ==
      2.0);
}

TEST_CASE("what extends a rotary embedding is read with it") {
  const Json yarn = {{"rope_type", "yarn"},
                     {"factor", 4.0},
                     {"beta_fast", 16},
                     {"mscale", 0.5},
                     {"original_max_position_embeddings", 32},
                     {"truncate", false}};
  const auto read = parse(with(llama(), {{"rope_scaling", yarn}})).rope;
  CHECK(read.factor == 4.0);
  CHECK(read.beta_fast == 16.0);
  CHECK(read.beta_slow == 1.0);
  CHECK(read.mscale == 0.5);
  CHECK_FALSE(read.truncate);
  CHECK(read.original_max_position_embeddings == 32);
  // Without the key `factor`, the scaling factor is max_position_embeddings divided by the original
  // length. The config's own key original_max_position_embeddings takes precedence over the key in
  // rope_scaling.
  const Json implied = with(llama(), {{"rope_scaling", without(yarn, "factor")},
                                      {"original_max_position_embeddings", 16}});
  const auto lengths = parse(implied);
  CHECK(lengths.rope.original_max_position_embeddings == 16);
  CHECK(lengths.rope.factor == static_cast<double>(lengths.max_position_embeddings) / 16.0);
}

TEST_CASE("gpt-oss without details of its rope has the one of its class") {
  const Json oss = {{"model_type", "gpt_oss"},  {"vocab_size", 64},
                    {"hidden_size", 32},        {"intermediate_size", 16},
                    {"num_hidden_layers", 2},   {"num_attention_heads", 4},
                    {"num_key_value_heads", 2}, {"head_dim", 8},
                    {"num_local_experts", 4},   {"num_experts_per_tok", 2}};
  for (const Json& config : {oss, with(oss, {{"rope_theta", 5e5}, {"rope_scaling", nullptr}}),
                             with(oss, {{"rope_parameters", nullptr}})}) {
    const auto rope = parse(config).rope;
    CHECK(rope.type == "yarn");
    CHECK(rope.theta == (config.contains("rope_theta") ? 5e5 : 150000.0));
    CHECK(rope.factor == 32.0);
    CHECK(rope.original_max_position_embeddings == 4096);
    CHECK_FALSE(rope.truncate);
  }
  const Json plain = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  CHECK(parse(with(oss, {{"rope_parameters", plain}})).rope.type == "default");
  CHECK(parse(with(oss, {{"rope_parameters", Json::object()}})).rope.type == "default");
  CHECK(parse(oss).activation_alpha == 1.702);
  CHECK(parse(with(oss, {{"swiglu_alpha", 1.5}})).activation_alpha == 1.5);
}

TEST_CASE("hunyuan's experts per token are one number, or a list of equal numbers") {
  const Json moe = {{"model_type", "hunyuan_v1_moe"},
                    {"vocab_size", 64},
                    {"hidden_size", 32},
                    {"intermediate_size", 16},
                    {"num_hidden_layers", 2},
                    {"num_attention_heads", 4},
                    {"head_dim", 8},
                    {"num_experts", 4}};
  const auto taking = [&](const Json& taken) { return with(moe, {{"moe_topk", taken}}); };
  CHECK(parse(moe).moe->experts_per_token == 1);
  CHECK(parse(taking(3)).moe->experts_per_token == 3);
  CHECK(parse(taking(Json::array({3, 3}))).moe->experts_per_token == 3);
  CHECK(parse(taking(Json::array({3, 3}))).moe->shared_width == 16);
  CHECK(rules(taking(Json::array({3, 2}))) == Ids{"model.value"});
  CHECK(rules(taking(Json::array({3}))) == Ids{"model.value"});
  CHECK(rules(taking(Json::array({0, 0}))) == Ids{"model.value"});
  CHECK(rules(taking(Json::array({5, 5}))) == Ids{"model.experts"});
}

TEST_CASE("ERNIE 4.5's experts are in every n-th layer of a range") {
  const Json ernie = {
      {"model_type", "ernie4_5_moe"}, {"vocab_size", 64},       {"hidden_size", 32},
      {"intermediate_size", 16},      {"num_hidden_layers", 5}, {"num_attention_heads", 4}};
  const auto layers = [&](const Json& changes) { return parse(with(ernie, changes)).moe->layers; };
  using Layers = std::vector<bool>;
  CHECK(layers(Json::object()) == Layers{false, true, true, true, true});
  CHECK(layers({{"moe_layer_interval", 2}}) == Layers{false, true, false, true, false});
  CHECK(layers({{"moe_layer_start_index", 0}, {"moe_layer_end_index", 2}}) ==
        Layers{true, true, true, false, false});
  CHECK(parse(ernie).moe->shared_width == 2 * 1536);
  CHECK(parse(with(ernie, {{"use_bias", true}})).head_bias);
  CHECK(rules(with(ernie, {{"moe_norm_min", 0.5}})) == Ids{"model.value"});
}

TEST_CASE("longrope has a factor for each pair, or is refused") {
  const auto scaled = [](const Json& factors) {
    return with(llama(), {{"rope_scaling",
                           {{"type", "longrope"},
                            {"short_factor", {1.0, 1.0, 1.0, 1.0}},
                            {"long_factor", factors}}}});
  };
  CHECK(parse(scaled({1.0, 2.0, 3.0, 4.0})).rope.long_factor == std::vector{1.0, 2.0, 3.0, 4.0});
  CHECK(rules(scaled({1.0, 2.0, 3.0})) == Ids{"model.rope"});
  CHECK(rules(scaled({1.0, 2.0, 3.0, 0.0})) == Ids{"model.rope"});
  CHECK(rules(scaled({1.0, 2.0, 3.0, "4"})) == Ids{"model.rope"});
  CHECK(rules(scaled(nullptr)) == Ids{"model.rope"});
}

TEST_CASE("longrope of latent attention has a factor for each pair of the part that turns") {
  const Json config = with(llama(), {{"model_type", "deepseek_v2"},
                                     {"num_experts_per_tok", 2},
                                     {"qk_rope_head_dim", 6},
                                     {"rope_scaling",
                                      {{"rope_type", "longrope"},
                                       {"short_factor", {1.0, 2.0, 3.0}},
                                       {"long_factor", {4.0, 5.0, 6.0}}}}});
  CHECK(parse(config).rope.short_factor == std::vector{1.0, 2.0, 3.0});
  CHECK(parse(config).head_dim == 128 + 6);
  CHECK(rules(with(config, {{"qk_rope_head_dim", 8}})) == Ids{"model.rope", "model.rope"});
}

TEST_CASE("rotary embeddings that are not computed are kept by name") {
  for (const char* type : {"dynamic", "su"}) {
    const Json scaling = {{"type", type}, {"factor", 2.0}};
    CHECK(parse(with(llama(), {{"rope_scaling", scaling}})).rope.type == type);
  }
  CHECK(parse(with(llama(), {{"partial_rotary_factor", 0.5}})).rope.rotated_part == 0.5);
  const Json by_layer = {{"full_attention", {{"rope_type", "default"}}}};
  CHECK(parse(with(llama(), {{"rope_parameters", by_layer}})).rope.type ==
        am::model::kRopePerLayerType);
  CHECK(rules(with(llama(), {{"partial_rotary_factor", 1.5}})) == Ids{"model.value"});
  CHECK(rules(with(llama(), {{"rope_scaling", {{"rope_type", "linear"}}}})) == Ids{"model.key"});
  CHECK(rules(with(llama(), {{"rope_scaling", 3}})) == Ids{"model.type"});
  CHECK(rules(with(llama(), {{"rope_theta", -1.0}})) == Ids{"model.value"});
  const Json swapped = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 4.0},
                        {"high_freq_factor", 1.0}};
  CHECK(rules(with(llama(), {{"rope_scaling", swapped}})) == Ids{"model.rope"});
}

TEST_CASE("dtype in both spellings") {
  CHECK(parse(with(llama(), {{"torch_dtype", "bfloat16"}})).dtype == "bfloat16");
  CHECK(parse(with(llama(), {{"dtype", "torch.float16"}})).dtype == "float16");
  Diagnostics found;
  const Json odd = with(llama(), {{"dtype", "int3"}});
  CHECK(am::model::parse_config(odd.dump(), "config.json", found).has_value());
  CHECK(found.count(am::Severity::kWarning) == 1);
}

TEST_CASE("an unknown model_type of Llama's shape is planned as Llama, with a warning") {
  Diagnostics found;
  const Json json = with(llama(), {{"model_type", "qwen4"}, {"attention_bias", true}});
  const auto config = am::model::parse_config(json.dump(2), "dir/config.json", found);
  REQUIRE(config.has_value());
  CHECK(config->model_type == "qwen4");
  CHECK(config->o_bias);
  CHECK(am::model::family_of(*config).model_type == "llama");
  REQUIRE(found.items().size() == 1);
  const auto& item = found.items()[0];
  CHECK(item.severity == am::Severity::kWarning);
  CHECK(item.rule == "model.family");
  CHECK(item.span.file == "dir/config.json");
  CHECK(item.span.line == 2);
  CHECK_THAT(item.message, Catch::Contains("Llama"));
  CHECK_THAT(item.help, Catch::Contains("did you mean"));
}

TEST_CASE("an unknown model_type of another shape is an error that lists the known ones") {
  Json other = with(llama(), {{"model_type", "qwen4"}});
  for (const Json& changes :
       {Json{{"num_experts", 4}}, Json{{"kv_lora_rank", 4}}, Json{{"layer_norm_eps", 1e-5}},
        Json{{"is_encoder_decoder", true}}, Json{{"text_config", Json::object()}}}) {
    CHECK(rules(with(other, changes)) == Ids{"model.family"});
  }
  other.erase("intermediate_size");
  Diagnostics found;
  CHECK_FALSE(am::model::parse_config(other.dump(2), "config.json", found).has_value());
  REQUIRE(found.items().size() == 1);
  CHECK(found.items()[0].rule == "model.family");
  CHECK_THAT(found.items()[0].message, Catch::Contains("intermediate_size"));
  for (const std::string& name : am::model::family_names()) {
    CHECK_THAT(found.items()[0].help, Catch::Contains(name));
  }
  CHECK(rules(without(llama(), "model_type")) == Ids{"model.key"});
  CHECK(rules(with(llama(), {{"model_type", 7}})) == Ids{"model.type"});
  CHECK(rules(with(llama(), {{"model_type", ""}})) == Ids{"model.family"});
}

TEST_CASE("an unknown model_type with a key that nobody understands is refused by the key") {
  const Json other = with(llama(), {{"model_type", "mine"}});
  const auto refusal = [&](const Json& changes) {
    Diagnostics found;
    CHECK_FALSE(am::model::parse_config(with(other, changes).dump(2), "f", found).has_value());
    REQUIRE(found.items().size() == 1);
    CHECK(found.items()[0].rule == "model.family");
    return found.items()[0].message;
  };
  CHECK_THAT(refusal({{"moe_num_experts", 64}, {"moe_k", 6}}),
             Catch::Contains("it has moe_num_experts, moe_k, keys"));
  CHECK_THAT(refusal({{"mamba_d_state", 16}}), Catch::Contains("mamba_d_state"));
  CHECK_THAT(refusal({{"use_bias", true}}), Catch::Contains("use_bias"));
  CHECK_THAT(refusal({{"hidden_act", "relu2"}}), Catch::Contains("hidden_act is \"relu2\""));
  CHECK_THAT(refusal({{"layer_types", {"conv", "full_attention"}}}),
             Catch::Contains("layer_types has \"conv\""));
  CHECK_THAT(refusal({{"model_type", "orion"}}), Catch::Contains("no key shows it"));
  Json many;
  for (int i = 0; i < 12; ++i) many["k" + std::to_string(i)] = 1;
  CHECK_THAT(refusal(many), Catch::Contains("and 4 more"));
}

TEST_CASE("an unknown model_type may have keys that change no shape") {
  const Json harmless = {{"model_type", "mine"},           {"bos_token_id", 1},
                         {"attention_dropout", 0.0},       {"use_bias", false},
                         {"logits_scaling", 8.0},          {"num_experts", nullptr},
                         {"id2label", {{"0", "LABEL_0"}}}, {"_attn_implementation_autoset", true}};
  CHECK(parse(with(llama(), harmless)).model_type == "mine");
}

TEST_CASE("the window of an unknown model_type is in the layers that it names") {
  const int64_t layers = llama().at("num_hidden_layers").get<int64_t>();
  Json types = Json::array();
  for (int64_t i = 0; i < layers; ++i) types.push_back("full_attention");
  types[0] = "sliding_attention";
  const Json json =
      with(llama(), {{"model_type", "mine"}, {"sliding_window", 128}, {"layer_types", types}});
  const auto config = parse(json);
  CHECK(am::model::window_of(config, 0) == 128);
  CHECK_FALSE(am::model::window_of(config, 1).has_value());
  CHECK_FALSE(
      am::model::window_of(parse(with(json, {{"use_sliding_window", false}})), 0).has_value());
}

TEST_CASE("a size that is Infinity is out of range, not a syntax error") {
  std::string text = with(llama(), {{"rms_norm_eps", 0.5}}).dump();
  const std::string eps = "\"rms_norm_eps\":";
  const size_t at = text.find(eps);
  REQUIRE(at != std::string::npos);
  text.replace(at, text.find_first_of(",}", at) - at, eps + "Infinity");
  Diagnostics found;
  CHECK_FALSE(am::model::parse_config(text, "f", found).has_value());
  REQUIRE(found.items().size() == 1);
  CHECK(found.items()[0].rule == "model.value");
  CHECK_THAT(found.items()[0].message, Catch::Contains("rms_norm_eps = inf"));
}

TEST_CASE("all violations are reported at once") {
  Json json = with(llama(), {{"hidden_act", 3},
                             {"num_hidden_layers", 0},
                             {"attention_bias", "yes"},
                             {"rms_norm_eps", "small"}});
  json.erase("vocab_size");
  auto ids = rules(json);
  std::sort(ids.begin(), ids.end());
  CHECK(ids == Ids{"model.key", "model.type", "model.type", "model.type", "model.value"});
}

TEST_CASE("wrong sizes") {
  CHECK(rules(with(llama(), {{"hidden_size", -32}})) == Ids{"model.value"});
  CHECK(rules(with(llama(), {{"hidden_size", 1e6}})) == Ids{"model.type"});
  CHECK(rules(with(llama(), {{"hidden_size", true}})) == Ids{"model.type"});
  CHECK(rules(with(llama(), {{"hidden_size", nullptr}})) == Ids{"model.key"});
  CHECK(rules(with(llama(), {{"vocab_size", 18446744073709551615U}})) == Ids{"model.value"});
  CHECK(rules(with(llama(), {{"vocab_size", 4611686018427387904}})) == Ids{"model.value"});
  CHECK(rules(with(llama(), {{"num_attention_heads", 5}})) == Ids{"model.heads"});
  CHECK(rules(with(llama(), {{"num_key_value_heads", 3}})) == Ids{"model.heads"});
  CHECK(rules(with(llama(), {{"head_dim", 7}})) == Ids{"model.heads"});
  CHECK(rules(with(llama(), {{"num_attention_heads", 65536}, {"head_dim", 16384}})) ==
        Ids{"model.value"});
}

TEST_CASE("what is no config") {
  CHECK(rules(std::string("")) == Ids{"json.syntax"});
  CHECK(rules(std::string("{\"model_type\": ")) == Ids{"json.syntax"});
  CHECK(rules(std::string("[1, 2]")) == Ids{"model.type"});
  CHECK(rules(std::string("\0\1\2\xff", 4)) == Ids{"json.syntax"});
}

TEST_CASE("a folder stands for its config.json, and a missing file is named") {
  Diagnostics found;
  const std::string folder = std::string(am::test::kSourceFolder) + "/plans/models/llama-3.2-1b";
  const auto config = am::model::load_config(folder, found);
  REQUIRE(config.has_value());
  CHECK(config->file == folder + "/config.json");
  CHECK(config->hidden_size == 2048);
  CHECK_THROWS_WITH(am::model::load_config("/nowhere/at/all", found),
                    Catch::Contains("/nowhere/at/all"));
}

TEST_CASE("configs that transformers itself wrote are read") {
  for (const char* name : {"llama", "llama-old-config", "mistral", "qwen2", "qwen3"}) {
    INFO(name);
    Diagnostics found;
    const auto config = am::model::load_config(am::cat(am::test::kDataFolder, "/hf/", name), found);
    REQUIRE(config.has_value());
    CHECK(found.empty());
    CHECK(config->head_dim > 0);
  }
}

}  // namespace
