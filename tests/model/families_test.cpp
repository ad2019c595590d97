// Compares every family with models that transformers saved: parameter names, shapes, windows and
// total sizes. Also tests layer profiles, multi-token prediction and FSDP units.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/family.h"
#include "am/model/flops.h"
#include "am/model/inventory.h"
#include "am/model/layer_profile.h"
#include "family_cases.h"
#include "support/changed_config.h"
#include "support/folders.h"
#include "support/published_model.h"

namespace {

using am::Json;
using am::model::build_inventory;
using am::model::Inventory;
using am::model::ModelConfig;
using am::model::ModuleKind;
using am::model::Role;
using am::test::config_of;
using am::test::model_json;
using am::test::model_of;
using Shapes = std::map<std::string, am::Shape>;

Json fixture(std::string_view family) {
  return Json::parse(am::read_file(am::cat(am::test::kDataFolder, "/families/", family, ".json")));
}

// Adds the parameters of a compact list, written by scripts/fixtures/make_family_inventories.py, to
// `out`. An entry is an index into `names`, followed by the shape. A name with `*` stands for one
// parameter per expert.
void add_entries(const Json& entries, const Json& names, const std::string& prefix, int experts,
                 Shapes& out) {
  for (const Json& entry : entries) {
    const std::string name = names.at(entry.at(0).get<size_t>()).get<std::string>();
    const am::Shape shape(entry.begin() + 1, entry.end());
    const size_t star = name.find('*');
    if (star == std::string::npos) {
      out[prefix + name] = shape;
      continue;
    }
    for (int expert = 0; expert < experts; ++expert) {
      out[am::cat(prefix, name.substr(0, star), expert, name.substr(star + 1))] = shape;
    }
  }
}

Shapes saved_shapes(const Json& file, const Json& sample) {
  Shapes shapes;
  const int experts = sample.value("experts", 0);
  add_entries(sample["outer"], file["names"], "", 0, shapes);
  for (size_t layer = 0; layer < sample["layer_kinds"].size(); ++layer) {
    const auto kind = sample["layer_kinds"][layer].get<size_t>();
    add_entries(sample["kinds"][kind], file["names"],
                am::cat(file["layers"].get<std::string>(), layer, "."), experts, shapes);
  }
  return shapes;
}

Shapes our_shapes(const Inventory& inventory) {
  Shapes shapes;
  for (const auto& parameter : inventory.parameters) shapes[parameter.name] = parameter.shape;
  return shapes;
}

TEST_CASE("names, shapes, windows and totals of random models are those that transformers saves") {
  for (const am::model::Family* family : am::model::families()) {
    const Json file = fixture(family->model_type);
    REQUIRE(file["cases"].size() == 20);
    for (const Json& sample : file["cases"]) {
      INFO(sample["config"].dump());
      const ModelConfig config = config_of(sample["config"]);
      const Inventory inventory = build_inventory(config);
      CHECK(our_shapes(inventory) == saved_shapes(file, sample));
      CHECK(inventory.parameters.size() == our_shapes(inventory).size());  // no duplicate names
      CHECK(inventory.total() == sample["total"].get<int64_t>());
      for (size_t layer = 0; layer < sample["windows"].size(); ++layer) {
        const Json& window = sample["windows"][layer];
        const auto ours = window_of(config, static_cast<int64_t>(layer));
        CHECK((ours.has_value() ? Json(*ours) : Json(nullptr)) == window);
      }
    }
  }
}

// Returns the number of a layer's weights that one token is multiplied with: the elements of all
// tensors of two or more dims except biases. Experts to which the token is not routed do not count.
double active_matrices(const ModelConfig& config, const Inventory& inventory, int layer) {
  double total = 0.0;
  for (const auto& parameter : inventory.parameters) {
    const bool bias = am::ends_with(parameter.name, "_bias");
    if (parameter.layer != layer || parameter.shape.size() < 2 || bias) continue;
    auto count = static_cast<double>(am::numel(parameter.shape));
    if (parameter.module_kind == ModuleKind::kExpert) {
      count *= static_cast<double>(config.moe->experts_per_token) /
               static_cast<double>(config.moe->experts);
    }
    total += count;
  }
  return total;
}

TEST_CASE("a layer's profile multiplies with the matrices that the inventory lists") {
  for (const am::model::Family* family : am::model::families()) {
    const Json file = fixture(family->model_type);
    for (const Json& sample : file["cases"]) {
      INFO(sample["config"].dump());
      const ModelConfig config = config_of(sample["config"]);
      const Inventory inventory = build_inventory(config);
      size_t layers = 0;
      for (const auto& kind : am::model::layer_kinds(config)) {
        layers += kind.layers.size();
        for (const int layer : kind.layers) {
          CHECK(am::model::layer_matmul_parameters(kind.profile, config.hidden_size) ==
                Approx(active_matrices(config, inventory, layer)));
        }
      }
      CHECK(layers == static_cast<size_t>(config.num_hidden_layers));
    }
  }
}

TEST_CASE("a layer's norms over the hidden state are counted in its profile") {
  for (const am::model::Family* family : am::model::families()) {
    const Json file = fixture(family->model_type);
    const ModelConfig config = config_of(file["cases"][0]["config"]);
    int norms = 0;
    for (const auto& parameter : build_inventory(config).parameters) {
      const bool over_hidden =
          parameter.role >= Role::kInputNorm && parameter.role <= Role::kPostFeedForwardNorm;
      if (over_hidden && parameter.layer == 0 && parameter.leaf() == "weight") ++norms;
    }
    INFO(family->model_type);
    // The inventory does not list norms without weights. Layers with these norms have two of them.
    if (!family->norm_weights) norms = 2;
    CHECK(am::model::layer_profile(config, 0).hidden_norms == norms);
  }
}

TEST_CASE("profiles of known models") {
  using am::model::layer_profile;
  const auto v3 = am::model::layer_runs(model_of("deepseek-v3"));
  REQUIRE(v3.size() == 2);
  CHECK(v3[0].count == 3);
  CHECK(v3[0].profile.feed_forward.dense_width == 18432);
  CHECK(v3[0].profile.feed_forward.experts == 0);
  CHECK(v3[1].first == 3);
  CHECK(v3[1].count == 58);
  CHECK(v3[1].profile.feed_forward.experts == 256);
  CHECK(v3[1].profile.feed_forward.experts_per_token == 8);
  CHECK(v3[1].profile.feed_forward.shared_width == 2048);
  CHECK(v3[1].profile.feed_forward.dense_width == 0);
  CHECK(v3[1].profile.attention.qk_head_dim == 192);
  CHECK(v3[1].profile.attention.v_head_dim == 128);
  CHECK(v3[1].profile.attention.norm_width == 1536 + 512);

  const auto gemma = am::model::layer_kinds(model_of("gemma-3-1b-pt"));
  REQUIRE(gemma.size() == 2);
  CHECK(gemma[0].layers.size() == 22);
  CHECK(gemma[1].layers == std::vector<int>{5, 11, 17, 23});
  CHECK(gemma[0].profile.hidden_norms == 4);
  CHECK(layer_profile(model_of("falcon-7b"), 0).parallel_block);
  CHECK(layer_profile(model_of("falcon-7b"), 0).hidden_norms == 1);
  CHECK(layer_profile(model_of("falcon-7b"), 0).attention.key_value_heads == 1);
  CHECK_FALSE(layer_profile(model_of("gpt2"), 0).feed_forward.gated);
  CHECK(layer_profile(model_of("olmo-2-1124-7b"), 0).attention.norm_width == 2 * 4096);
  CHECK(layer_profile(model_of("qwen2-57b-a14b"), 0).feed_forward.shared_gate);
}

TEST_CASE("published configs of planned families have their published parameters") {
  const std::pair<const char*, int64_t> cases[] = {
      {R"({"model_type": "falcon_mamba", "vocab_size": 65024, "hidden_size": 4096,
           "intermediate_size": 8192, "expand": 16, "num_hidden_layers": 64, "state_size": 16,
           "time_step_rank": 256, "tie_word_embeddings": false})",
       7272665088},
      {R"({"model_type": "falcon_h1", "vocab_size": 32784, "hidden_size": 1024,
           "intermediate_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 8,
           "num_key_value_heads": 2, "head_dim": 64, "mamba_d_ssm": 1536, "mamba_n_heads": 24,
           "mamba_d_state": 128})",
       521411104},
      {R"({"model_type": "lfm2", "vocab_size": 65536, "hidden_size": 2048, "block_ff_dim": 12288,
           "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
           "full_attn_idxs": [2, 5, 8, 10, 12, 14]})",
       1170340608},
      {R"({"model_type": "nemotron_h", "vocab_size": 131072, "hidden_size": 2688,
           "intermediate_size": 1856, "num_attention_heads": 32, "num_key_value_heads": 2,
           "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
           "mamba_num_heads": 64, "n_routed_experts": 128, "num_experts_per_tok": 6,
           "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712})",
       31577940288},
      {R"({"model_type": "kimi_linear", "vocab_size": 163840, "hidden_size": 2304,
           "intermediate_size": 9216, "num_hidden_layers": 27, "num_attention_heads": 32,
           "q_lora_rank": null, "linear_attn_config": {
           "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "kda_layers": []}})",
       49122681728},
      {R"({"model_type": "dbrx", "vocab_size": 100352, "d_model": 6144, "n_heads": 48,
           "n_layers": 40, "attn_config": {"kv_n_heads": 8}, "ffn_config": {
           "ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}})",
       131596523520},
  };
  for (const auto& [text, parameters] : cases) {
    INFO(text);
    CHECK(build_inventory(am::test::config_of(std::string(text))).total() == parameters);
  }
}

TEST_CASE("granitemoe ignores the key of granitemoeshared's width") {
  const std::string file = am::cat(am::test::kDataFolder, "/families/granitemoe.json");
  am::Json json = am::Json::parse(am::read_file(file))["cases"][0]["config"];
  const int64_t before = build_inventory(am::test::config_of(json)).total();
  json["shared_intermediate_size"] = "none";
  CHECK(build_inventory(am::test::config_of(json)).total() == before);
}

TEST_CASE("a conv1d weight is stored the other way round") {
  const Inventory inventory = build_inventory(model_of("gpt2"));
  const auto* weight = inventory.find("transformer.h.0.mlp.c_fc.weight");
  REQUIRE(weight != nullptr);
  CHECK(weight->transposed);
  CHECK(weight->shape == am::Shape{768, 3072});
}

TEST_CASE("multi-token prediction is counted beside the model") {
  const ModelConfig v3 = model_of("deepseek-v3");
  CHECK(v3.mtp_layers == 1);
  // DeepSeek V3's multi-token-prediction layer consists of a decoder layer with experts, a
  // projection from twice the hidden size to the hidden size, and three norms.
  const int64_t hidden = 7168;
  const int64_t attention = hidden * 1536 + 1536 + 1536 * 128 * 192 + hidden * 576 + 512 +
                            512 * 128 * 256 + 128 * 128 * hidden;
  const int64_t experts = 257 * 3 * hidden * 2048 + 256 * hidden + 256;
  CHECK(am::model::mtp_parameters(v3) ==
        attention + experts + 2 * hidden + 2 * hidden * hidden + 3 * hidden);
  CHECK(am::model::mtp_parameters(model_of("llama-3.1-8b")) == 0);
}

TEST_CASE("units: learned positions belong to the embedding") {
  const auto units = am::model::shard_units(build_inventory(model_of("gpt2")));
  CHECK(units.front().name == "transformer.wte");
  CHECK(units.front().parameters.size() == 2);
  CHECK(units[1].name == "transformer.h.0");
  CHECK(units.back().name.empty());
  CHECK(units.back().parameters.size() == 2);  // ln_f's weight and bias
}

TEST_CASE("units: a tied head's bias goes with the weight that it shares") {
  const ModelConfig config = am::test::changed_config("phi", "\"tie_word_embeddings\": false",
                                                      "\"tie_word_embeddings\": true");
  const Inventory inventory = build_inventory(config);
  const auto units = am::model::shard_units(inventory);
  std::vector<std::string> names;
  for (const int index : units.front().parameters) {
    names.push_back(inventory.parameters[static_cast<size_t>(index)].name);
  }
  CHECK(names == std::vector<std::string>{"model.embed_tokens.weight", "lm_head.bias"});
  CHECK(units.size() == 4);  // the embedding, two layers, and the root
}

TEST_CASE("names with any layer and any expert") {
  using am::model::any_layer_name;
  CHECK(any_layer_name("model.layers.12.mlp.experts.7.w1.weight", 12) ==
        "model.layers.*.mlp.experts.*.w1.weight");
  CHECK(any_layer_name("model.layers.1.mlp.experts.gate_up_proj", 1) ==
        "model.layers.*.mlp.experts.gate_up_proj");
  CHECK(any_layer_name("transformer.h.0.ln_1.weight", 0) == "transformer.h.*.ln_1.weight");
  CHECK(any_layer_name("lm_head.weight", -1) == "lm_head.weight");
}

}  // namespace
