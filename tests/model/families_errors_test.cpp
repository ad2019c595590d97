// Tests the errors of wrong configs: rule, location in the file, and legal values in the message or
// the help.
#include <catch2/catch.hpp>
#include <tuple>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/config.h"
#include "am/model/family.h"
#include "am/model/inventory.h"
#include "support/folders.h"
#include "support/published_model.h"

namespace {

using am::Diagnostics;
using am::Json;
using am::test::model_json;

Json changed(const std::string& name, const Json& changes) {
  Json json = model_json(name);
  json.update(changes);
  return json;
}

std::vector<am::Diagnostic> problems(const Json& json) {
  Diagnostics found;
  am::model::parse_config(json.dump(1), "config.json", found);
  return {found.items().begin(), found.items().end()};
}

struct Wrong {
  const char* model;
  Json changes;
  const char* rule;
  const char* says;  // text that the message or the help contains
};

TEST_CASE("MPT and BLOOM: what transformers' classes do not compute is an error") {
  const std::tuple<const char*, Json, const char*> cases[] = {
      {"mpt", {{"expansion_ratio", 2}}, "expansion_ratio = 4"},
      {"mpt", {{"no_bias", false}}, "no_bias"},
      {"mpt", {{"attn_config", {{"alibi", false}}}}, "alibi"},
      {"mpt", {{"attn_config", {{"alibi_bias_max", 16}}}}, "alibi_bias_max = 8"},
      {"mpt", {{"attn_config", {{"attn_type", "multiquery_attention"}}}}, "multihead_attention"},
      {"mpt", {{"attn_config", {{"prefix_lm", true}}}}, "prefix_lm"},
      {"mpt", {{"attn_config", 3}}, "attn_config must be an object"},
      {"mpt", {{"attn_config", Json::array()}}, "attn_config must be an object"},
      {"bloom", {{"apply_residual_connection_post_layernorm", true}}, "residuals"},
  };
  for (const auto& [family, changes, says] : cases) {
    INFO(family << " " << changes.dump());
    Json json = Json::parse(
        am::read_file(am::cat(am::test::kSourceFolder, "/tests/data/hf/", family, "/config.json")));
    CHECK(problems(json).empty());
    json.update(changes);
    const auto found = problems(json);
    REQUIRE(found.size() == 1);
    CHECK(found[0].severity == am::Severity::kError);
    CHECK(found[0].span.line > 1);
    CHECK_THAT(am::cat(found[0].message, " ", found[0].help), Catch::Contains(says));
    json["attn_config"] = nullptr;
    if (changes.contains("attn_config")) CHECK(problems(json).empty());
  }
}

TEST_CASE("families that are only planned: structures that no block describes are an error") {
  const std::tuple<const char*, Json, const char*> cases[] = {
      {"hy_v3", {{"mlp_bias", true}}, "experts with biases"},
      {"hy_v3", {{"mlp_layer_types", {"dense"}}}, "mlp_layer_types must be a list"},
      {"apertus1p5_text", {{"output_vocab_size", 7}}, "a head over a part of the vocabulary"},
      {"codegen", {{"n_head", 6}}, "multiple of 4"},
      {"gptj", {{"rotary_dim", 3}}, "rotary_dim = 3 is odd"},
      {"minimax_m2", {{"rotary_dim", 3}}, "rotary_dim = 3 is odd"},
      {"deepseek_v32", {{"q_lora_rank", nullptr}}, "low-rank queries"},
      {"granitemoehybrid", {{"shared_intermediate_size", 0}}, "shared_intermediate_size"},
      {"gpt_bigcode", {{"add_cross_attention", true}}, "cross-attention"},
      {"gpt_neo", {{"attention_types", {{{"global", "sparse"}, 1}}}}, "global or local"},
      {"laguna", {{"num_attention_heads_per_layer", {1000}}}, "different numbers of heads"},
      {"lfm2_moe", {{"layer_types", {"conv", "mamba"}}}, "full_attention"},
      {"llama4_text", {{"moe_layers", "all"}}, "moe_layers"},
      {"bamba", {{"attn_layer_indices", 3.5}}, "attn_layer_indices"},
      {"qwen3_next", {{"layer_types", "linear_attention"}}, "linear_attention"},
      {"nemotron_h", {{"layers_block_type", {"conv"}}}, "full_attention"},
      {"glm_moe_dsa", {{"indexer_types", {"none"}}}, "indexer_types must name"},
      {"glm_moe_dsa",
       {{"index_topk_pattern", {{"a", "F"}, {"b", "F"}}}},
       "index_topk_pattern must"},
      {"olmo_hybrid", {{"num_attention_heads", nullptr}}, "num_attention_heads"},
      {"olmo_hybrid",
       {{"linear_num_key_heads", 32},
        {"linear_num_value_heads", 32},
        {"linear_key_head_dim", nullptr}},
       "too small for 32 heads"},
      {"jetmoe", {{"num_key_value_heads", 65536}, {"kv_channels", 16384}}, "out of range"},
      {"mimo_v2_flash", {{"num_key_value_heads", 4}}, "2 * num_key_value_heads = 8"},
      {"dbrx", {{"tie_word_embeddings", true}}, "not tied"},
      {"dbrx", {{"attn_config", {{"kv_n_heads", 4}}}}, "kv_n_heads = 4 does not divide n_heads"},
      {"dbrx", {{"ffn_config", 7}}, "ffn_config must be an object"},
      {"lfm3", {{"layer_types", {"mamba"}}}, "sliding_attention"},
      {"recurrent_gemma", {{"block_types", {"mamba"}}}, "block_types must be a list"},
      {"recurrent_gemma", {{"intermediate_size", 1}}, "intermediate_size is below 2"},
      {"recurrent_gemma",
       {{"num_attention_heads", 3}, {"num_key_value_heads", 3}, {"lru_width", 7}},
       "does not divide lru_width"},
  };
  for (const auto& [family, changes, says] : cases) {
    INFO(family << " " << changes.dump());
    const std::string file = am::cat(am::test::kDataFolder, "/families/", family, ".json");
    Json json = Json::parse(am::read_file(file))["cases"][0]["config"];
    CHECK(problems(json).empty());
    json.update(changes);
    const auto found = problems(json);
    REQUIRE(found.size() == 1);
    CHECK(found[0].severity == am::Severity::kError);
    CHECK_THAT(am::cat(found[0].message, " ", found[0].help), Catch::Contains(says));
  }
}

TEST_CASE("wrong values have a place and legal values") {
  const std::vector<Wrong> cases = {
      {"mixtral-8x7b-v0.1", {{"num_local_experts", 0}}, "model.value", "1 to 16384"},
      {"mixtral-8x7b-v0.1", {{"num_local_experts", 1000000000}}, "model.value", "1 to 16384"},
      {"mixtral-8x7b-v0.1", {{"num_local_experts", 2.5}}, "model.type", "an integer"},
      {"mixtral-8x7b-v0.1", {{"num_experts_per_tok", 9}}, "model.experts", "1 to 8"},
      {"mixtral-8x7b-v0.1", {{"num_hidden_layers", 1000000}}, "model.value", "1 to 10000"},
      {"qwen2-57b-a14b", {{"shared_expert_intermediate_size", -1}}, "model.value", "legal"},
      {"qwen3-30b-a3b", {{"mlp_only_layers", {48}}}, "model.value", "0 to 47"},
      {"qwen3-30b-a3b", {{"mlp_only_layers", {"a"}}}, "model.value", "0 to 47"},
      {"qwen3-30b-a3b", {{"mlp_only_layers", 3}}, "model.type", "list"},
      {"qwen3-30b-a3b", {{"decoder_sparse_step", 0}}, "model.value", "1 to"},
      {"qwen3-30b-a3b", {{"moe_intermediate_size", "wide"}}, "model.type", "an integer"},
      {"gemma-2-2b", {{"layer_types", {"full_attention"}}}, "model.type", "list of 26"},
      {"gemma-2-2b", {{"sliding_window", 0}}, "model.value", "1 to"},
      {"gemma-3-1b-pt", {{"sliding_window_pattern", -6}}, "model.value", "1 to"},
      {"gemma-3-1b-pt",
       {{"rope_parameters", {{"full_attention", {{"rope_theta", "x"}}}}}},
       "model.type",
       "rope_parameters.full_attention.rope_theta"},
      {"phi-2", {{"partial_rotary_factor", 2.0}}, "model.value", "0 to 1"},
      {"phi-2", {{"layer_norm_eps", "x"}}, "model.type", "a number"},
      {"deepseek-v3", {{"kv_lora_rank", 0}}, "model.value", "1 to"},
      {"deepseek-v3", {{"kv_lora_rank", 1000000000000000000}}, "model.value", "1 to"},
      {"deepseek-v3", {{"qk_rope_head_dim", 3}}, "model.heads", "even"},
      {"deepseek-v3", {{"v_head_dim", true}}, "model.type", "an integer"},
      {"deepseek-v3", {{"num_experts_per_tok", 257}}, "model.experts", "1 to 256"},
      {"deepseek-v3", {{"first_k_dense_replace", -1}}, "model.value", "0 to"},
      {"deepseek-v3", {{"num_nextn_predict_layers", 1000}}, "model.value", "0 to 100"},
      {"deepseek-v2-lite", {{"num_experts_per_tok", nullptr}}, "model.key", "num_experts_per_tok"},
      {"gpt-oss-20b", {{"head_dim", 63}}, "model.heads", "odd"},
      {"gpt2", {{"n_head", 7}}, "model.heads", "n_head"},
      {"gpt2", {{"n_embd", nullptr}}, "model.key", "n_embd"},
      {"gpt2", {{"n_positions", 1000000000000}}, "model.value", "1 to"},
      {"falcon-7b", {{"num_attention_heads", 70}}, "model.heads", "does not divide"},
      {"falcon-7b", {{"num_ln_in_parallel_attn", 3}}, "model.value", "1 to 2"},
      {"falcon-7b", {{"bias", 1}}, "model.type", "true or false"},
      {"olmo-2-1124-7b", {{"num_key_value_heads", 5}}, "model.heads", "does not divide"},
  };
  for (const Wrong& wrong : cases) {
    INFO(wrong.model << " " << wrong.changes.dump());
    const auto found = problems(changed(wrong.model, wrong.changes));
    REQUIRE(found.size() == 1);
    UNSCOPED_INFO(found[0].message << " | " << found[0].help);
    CHECK(found[0].rule == wrong.rule);
    CHECK(found[0].severity == am::Severity::kError);
    CHECK((found[0].span.line > 1 || found[0].rule == "model.key"));
    CHECK_THAT(am::cat(found[0].message, " ", found[0].help), Catch::Contains(wrong.says));
  }
}

TEST_CASE("models that cannot be listed or counted are refused, not attempted") {
  // 10,000 layers with 16,384 experts of three matrices each have half a billion parameter names.
  const auto names = problems(
      changed("mixtral-8x7b-v0.1", {{"num_hidden_layers", 10000}, {"num_local_experts", 16384}}));
  REQUIRE(names.size() == 1);
  CHECK(names[0].rule == "model.value");
  CHECK_THAT(names[0].message, Catch::Contains("tensors"));
  const auto bytes = problems(changed("gpt-oss-20b", {{"num_hidden_layers", 10000},
                                                      {"num_local_experts", 16384},
                                                      {"hidden_size", 1048576},
                                                      {"intermediate_size", 4194304}}));
  REQUIRE(bytes.size() == 1);
  CHECK(bytes[0].rule == "model.value");
  CHECK_THAT(bytes[0].message, Catch::Contains("parameters"));
}

TEST_CASE("every integer key of every family refuses what is no size") {
  int keys = 0;
  for (const char* name : {"llama-3.1-8b", "mixtral-8x7b-v0.1", "qwen2-57b-a14b", "qwen3-30b-a3b",
                           "gemma-2-2b", "gemma-3-1b-pt", "phi-2", "phi-4", "olmo-2-1124-7b",
                           "deepseek-v2-lite", "deepseek-v3", "gpt-oss-20b", "gpt2", "falcon-7b"}) {
    const Json json = model_json(name);
    for (const auto& [key, value] : json.items()) {
      // Selects keys of sizes and counts. Keys of the loss, of the router's scores and of the
      // tokenizer do not affect the plan.
      const bool planned = key.find("size") != std::string::npos || key.find("num_") == 0 ||
                           key.find("_dim") != std::string::npos ||
                           key.find("_rank") != std::string::npos || key.find("n_") == 0;
      if (!value.is_number_integer() || !planned || key == "n_group") continue;
      for (const Json& wrong :
           {Json(-1), Json(1.5), Json("8"), Json(int64_t{1} << 62), Json(true)}) {
        INFO(name << " " << key << " = " << wrong.dump());
        const auto found = problems(changed(name, {{key, wrong}}));
        REQUIRE_FALSE(found.empty());
        CHECK(found[0].span.line > 1);
        ++keys;
      }
    }
  }
  CHECK(keys > 400);
}

TEST_CASE("the text part of a multimodal config is planned, and the rest is named") {
  // Like google/gemma-3-4b-pt, this config omits sizes that equal the defaults of transformers'
  // class.
  const Json json = {{"model_type", "gemma3"},
                     {"text_config",
                      {{"model_type", "gemma3_text"},
                       {"hidden_size", 2560},
                       {"intermediate_size", 10240},
                       {"num_hidden_layers", 34},
                       {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                       {"sliding_window", 1024}}},
                     {"vision_config", {{"hidden_size", 1152}}}};
  Diagnostics found;
  const auto config = am::model::parse_config(json.dump(1), "config.json", found);
  REQUIRE(config.has_value());
  REQUIRE(found.items().size() == 1);
  CHECK(found.items()[0].rule == "model.text_part");
  CHECK(found.items()[0].severity == am::Severity::kWarning);
  CHECK(config->model_type == "gemma3_text");
  CHECK(config->wrapped_in == "gemma3");
  CHECK(am::model::build_inventory(*config).total() == 3880263168);

  Json broken = json;
  broken["text_config"]["hidden_size"] = "x";
  REQUIRE(problems(broken).size() == 2);  // the warning comes first
  CHECK(problems(broken)[1].message == "text_config.hidden_size must be an integer, not a text");
  broken["text_config"] = 3;
  REQUIRE(problems(broken).size() == 1);
  CHECK(problems(broken)[0].rule == "model.type");
}

}  // namespace
