// Reads a model's parameters from files that store a parameter under another name, or several
// parameters in one tensor.
#include "am/stored/hub_names.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <utility>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/stored/fit.h"
#include "am/tensor/redistribute.h"
#include "support/plans.h"

namespace am::checkpoint {
namespace {

using Stored = std::map<std::string, at::Tensor>;

// A TensorSource whose tensors are in memory.
class MadeUpFile : public stored::TensorSource {
 public:
  explicit MadeUpFile(Stored stored) : stored_(std::move(stored)) {
    for (const auto& [name, value] : stored_) {
      tensors_.push_back(
          {name, value.sizes().vec(), tensor::stored_dtype(value.scalar_type()), {}});
    }
    std::sort(tensors_.begin(), tensors_.end(),
              [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  }

  std::string format() const override { return "huggingface"; }
  std::filesystem::path path() const override { return "made-up"; }
  const std::vector<stored::StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<stored::StoredTensor>& optimizer_tensors() const override { return none_; }
  std::filesystem::path config_file() const override { return {}; }
  void read(std::string_view name, const mesh::Box& box,
            const stored::Destination& out) const override {
    const at::Tensor& value = stored_.at(std::string(name));
    const auto* data = static_cast<const std::byte*>(value.const_data_ptr());
    stored::copy_box({data, value.nbytes()}, value.strides().vec(), box, value.element_size(), out);
  }

 private:
  Stored stored_;
  std::vector<stored::StoredTensor> tensors_;
  std::vector<stored::StoredTensor> none_;
};

model::ModelConfig config_of(const Json& json) {
  Diagnostics found;
  const auto config = model::parse_config(json.dump(), "config.json", found);
  REQUIRE(config.has_value());
  return *config;
}

const Json kSizes = {{"vocab_size", 16},         {"hidden_size", 8},
                     {"intermediate_size", 6},   {"num_hidden_layers", 2},
                     {"num_attention_heads", 2}, {"num_key_value_heads", 1}};

Json with(Json json, const Json& more) {
  json.update(more);
  return json;
}

Stored random_parameters(const model::Inventory& inventory) {
  Stored stored;
  for (const auto& parameter : inventory.parameters) {
    stored[parameter.name] = at::randn(parameter.shape);
  }
  return stored;
}

// Returns the tensors as transformers 5 stores them in memory: the experts of a layer are stacked,
// and one tensor contains the rows of each gate projection above those of the up projection.
Stored stacked(const Stored& hub, const std::array<std::string, 3>& leaves, int64_t experts,
               const std::string& block) {
  Stored stored;
  std::map<std::string, std::map<std::string, std::vector<at::Tensor>>> all;
  for (const auto& [name, value] : hub) {
    const size_t at = name.find(".experts.");
    std::string renamed = name;
    const size_t moved = renamed.find(block);
    if (moved != std::string::npos) renamed.replace(moved, block.size(), ".mlp.");
    if (at == std::string::npos) {
      stored[renamed] = value;
      continue;
    }
    const std::string prefix = renamed.substr(0, renamed.find(".experts."));
    for (int64_t expert = 0; expert < experts; ++expert) {
      for (const std::string& leaf : leaves) {
        if (ends_with(name, cat(".experts.", expert, ".", leaf, ".weight"))) {
          all[prefix][leaf].push_back(value);
        }
      }
    }
  }
  for (auto& [prefix, of] : all) {
    stored[prefix + ".experts.gate_up_proj"] =
        at::cat({at::stack(of[leaves[0]]), at::stack(of[leaves[1]])}, 1);
    stored[prefix + ".experts.down_proj"] = at::stack(of[leaves[2]]);
  }
  return stored;
}

void check_reads(const stored::TensorSource& file, const model::Inventory& inventory,
                 const Stored& hub) {
  const stored::HubNames named(file, inventory);
  CHECK(named.tensors().size() == hub.size());
  for (const auto& parameter : inventory.parameters) {
    INFO(parameter.name);
    REQUIRE(named.find(parameter.name) != nullptr);
    CHECK(named.find(parameter.name)->shape == parameter.shape);
    CHECK(at::equal(checkpoint::read_all(named, parameter.name), hub.at(parameter.name)));
    // Reads a part of the parameter.
    mesh::Box box = mesh::Box::whole(parameter.shape);
    box.offset[0] = box.shape[0] / 2;
    box.shape[0] -= box.offset[0];
    at::Tensor part = at::empty(box.shape);
    checkpoint::read(named, parameter.name, box, part);
    CHECK(at::equal(part, hub.at(parameter.name).narrow(0, box.offset[0], box.shape[0])));
  }
}

}  // namespace

TEST_CASE("experts in two tensors of a layer are found one by one") {
  const Json moe = {{"moe_intermediate_size", 4}, {"num_experts", 4}, {"num_experts_per_tok", 2}};
  const auto qwen =
      config_of(with(with(kSizes, moe), {{"model_type", "qwen3_moe"}, {"head_dim", 4}}));
  const auto mixtral =
      config_of(with(kSizes, {{"model_type", "mixtral"}, {"num_local_experts", 4}}));
  const auto check = [](const model::ModelConfig& config, const std::array<std::string, 3>& leaves,
                        const std::string& block) {
    const model::Inventory inventory = model::build_inventory(config);
    const Stored hub = random_parameters(inventory);
    const MadeUpFile file(stacked(hub, leaves, 4, block));
    CHECK(file.tensors().size() < hub.size());
    check_reads(file, inventory, hub);
  };
  check(qwen, {"gate_proj", "up_proj", "down_proj"}, ".mlp.");
  check(mixtral, {"w1", "w3", "w2"}, ".block_sparse_moe.");
  const auto minimax = config_of(with(kSizes, {{"model_type", "minimax_m2"},
                                               {"num_local_experts", 4},
                                               {"num_experts_per_tok", 2},
                                               {"head_dim", 4}}));
  check(minimax, {"w1", "w3", "w2"}, ".block_sparse_moe.");
}

TEST_CASE("experts, routers and correction biases are found under transformers' names of them") {
  using Renamings = std::map<std::string, std::string>;
  const auto check = [](const Json& more, const Renamings& renamings) {
    const model::Inventory inventory = model::build_inventory(config_of(with(kSizes, more)));
    const Stored hub = random_parameters(inventory);
    Stored stored;
    size_t renamed = 0;
    for (const auto& [name, value] : hub) {
      std::string in_memory = name;
      for (const auto& [from, to] : renamings) {
        const size_t at = in_memory.find(from);
        if (at == std::string::npos) continue;
        in_memory.replace(at, from.size(), to);
        ++renamed;
      }
      stored[in_memory] = value;
    }
    CHECK(renamed >= renamings.size());
    check_reads(MadeUpFile(stored), inventory, hub);
  };
  check({{"model_type", "granitemoe"}, {"num_local_experts", 4}},
        {{".input_linear.weight", ".experts.gate_up_proj"},
         {".output_linear.weight", ".experts.down_proj"},
         {".router.layer.", ".router."}});
  check({{"model_type", "ernie4_5_moe"},
         {"num_key_value_heads", 1},
         {"moe_num_experts", 4},
         {"moe_k", 2},
         {"moe_intermediate_size", 4}},
        {{".mlp.moe_statics.", ".mlp.gate.moe_statics."}});
}

TEST_CASE("a head is found under transformers' name of it") {
  const model::Inventory inventory =
      model::build_inventory(config_of(with(kSizes, {{"model_type", "gpt_neox"}})));
  const Stored hub = random_parameters(inventory);
  Stored renamed = hub;
  renamed["lm_head.weight"] = hub.at("embed_out.weight");
  renamed.erase("embed_out.weight");
  check_reads(MadeUpFile(renamed), inventory, hub);
}

TEST_CASE("a base model's file lacks the first component of each name") {
  const auto check = [](const Json& json, const std::string& prefix) {
    const model::ModelConfig config = config_of(json);
    const model::Inventory inventory = model::build_inventory(config);
    const Stored hub = random_parameters(inventory);
    Stored bare;
    for (const auto& [name, value] : hub) {
      bare[starts_with(name, prefix) ? name.substr(prefix.size()) : name] = value;
    }
    check_reads(MadeUpFile(bare), inventory, hub);
    check_reads(MadeUpFile(hub), inventory, hub);
  };
  check(with(kSizes, {{"model_type", "llama"}}), "model.");
  check({{"model_type", "gpt2"},
         {"vocab_size", 16},
         {"n_embd", 8},
         {"n_layer", 2},
         {"n_head", 2},
         {"n_positions", 8}},
        "transformer.");
}

namespace {

Stored with_prefix(const Stored& stored, const std::string& prefix) {
  Stored renamed;
  for (const auto& [name, value] : stored) renamed[prefix + name] = value;
  return renamed;
}

}  // namespace

TEST_CASE("one prefix in front of all of a model's names is taken off") {
  for (const bool tied : {false, true}) {
    const model::ModelConfig config =
        config_of(with(kSizes, {{"model_type", "llama"}, {"tie_word_embeddings", tied}}));
    const model::Inventory inventory = model::build_inventory(config);
    const Stored hub = random_parameters(inventory);
    for (const char* prefix : {"net.", "module.", "policy.actor.", "model."}) {
      INFO(prefix);
      check_reads(MadeUpFile(with_prefix(hub, prefix)), inventory, hub);
    }
    // The prefix is also removed from a tensor that belongs to the model but is not a parameter.
    Stored more = with_prefix(hub, "net.");
    more["net.model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({2});
    const MadeUpFile file(more);
    CHECK(stored::HubNames(file, inventory).find("model.layers.0.self_attn.rotary_emb.inv_freq") !=
          nullptr);
  }
}

TEST_CASE("names behind two prefixes are two models, and none is chosen") {
  const model::ModelConfig config = config_of(with(kSizes, {{"model_type", "llama"}}));
  const model::Inventory inventory = model::build_inventory(config);
  const Stored hub = random_parameters(inventory);
  Stored both = with_prefix(hub, "student.");
  both.merge(with_prefix(hub, "teacher."));
  const MadeUpFile file(both);
  CHECK_THROWS_WITH(stored::HubNames(file, inventory),
                    Catch::Contains("with two prefixes, \"student.\" and \"teacher.\""));
  // A copy of the model that lacks a parameter is not selected.
  both.erase("teacher.model.norm.weight");
  const MadeUpFile fewer(both);
  CHECK(stored::HubNames(fewer, inventory).find("model.norm.weight") != nullptr);
}

TEST_CASE("tied weights are found under either name") {
  const model::ModelConfig config =
      config_of(with(kSizes, {{"model_type", "llama"}, {"tie_word_embeddings", true}}));
  const model::Inventory inventory = model::build_inventory(config);
  const Stored hub = random_parameters(inventory);
  for (const char* prefix : {"", "net."}) {
    Stored stored = with_prefix(hub, prefix);
    stored[cat(prefix, "lm_head.weight")] = hub.at("model.embed_tokens.weight");
    stored.erase(cat(prefix, "model.embed_tokens.weight"));
    check_reads(MadeUpFile(stored), inventory, hub);
  }
}

TEST_CASE("an adapter's own name and base layers are found") {
  model::ModelConfig config = config_of(with(kSizes, {{"model_type", "llama"}}));
  const model::Inventory plain = model::build_inventory(config);
  const Stored hub = random_parameters(plain);
  // The whole state dict of a model that PEFT wraps: base layers and adapters.
  Stored wrapped;
  for (const auto& [name, value] : hub) {
    const size_t dot = name.find("q_proj.weight");
    if (dot == std::string::npos) {
      wrapped["base_model.model." + name] = value;
      continue;
    }
    const std::string module = "base_model.model." + name.substr(0, dot) + "q_proj.";
    wrapped[module + "base_layer.weight"] = value;
    wrapped[module + "lora_A.default.weight"] = at::randn({2, value.size(1)});
    wrapped[module + "lora_B.default.weight"] = at::randn({value.size(0), 2});
  }
  const MadeUpFile file(wrapped);
  const stored::HubNames named(file, plain);
  for (const auto& [name, value] : hub) {
    INFO(name);
    REQUIRE(named.find(name) != nullptr);
    CHECK(at::equal(checkpoint::read_all(named, name), value));
  }
}

TEST_CASE("a tensor of another shape is not taken for a parameter's place") {
  const model::ModelConfig config = config_of(with(kSizes, {{"model_type", "llama"}}));
  const model::Inventory inventory = model::build_inventory(config);
  Stored stored = random_parameters(inventory);
  stored["norm.weight"] = at::ones({9});
  stored.erase("model.norm.weight");
  const MadeUpFile file(stored);
  const stored::HubNames named(file, inventory);
  CHECK(named.find("model.norm.weight") == nullptr);
  CHECK(named.find("norm.weight") != nullptr);
}

}  // namespace am::checkpoint
