// What holds for the description of every family's layers, whatever the config.
#include "am/model/spec.h"

#include <catch2/catch.hpp>
#include <set>

#include "am/model/inventory.h"
#include "family_cases.h"

namespace {

using am::model::AttentionSpec;
using am::model::DecoderSpec;
using am::model::describe;
using am::model::Inventory;
using am::model::LayerSpec;
using am::model::ModelConfig;
using am::model::ModuleKind;
using am::model::ModuleSpec;
using am::model::Role;
using am::model::Space;
using am::test::all_cases;

// Elements and tensors.
struct Sum {
  int64_t numel = 0;
  int64_t tensors = 0;

  void add(const std::vector<ModuleSpec>& modules) {
    for (const ModuleSpec& module : modules) {
      numel += module.numel();
      tensors += module.tensors();
    }
  }
  bool operator==(const Sum&) const = default;
};

// Of the parameters of one layer, or of what is outside of the layers (-1).
Sum listed(const Inventory& inventory, int layer) {
  Sum sum;
  for (const auto& parameter : inventory.parameters) {
    if (parameter.layer != layer) continue;
    sum.numel += am::numel(parameter.shape);
    ++sum.tensors;
  }
  return sum;
}

TEST_CASE("a description's modules are the inventory's parameters, layer by layer") {
  for (const ModelConfig& config : all_cases()) {
    INFO(config.text);
    const DecoderSpec spec = describe(config);
    const Inventory inventory = build_inventory(config);
    REQUIRE(spec.kind_of_layer.size() == static_cast<size_t>(config.num_hidden_layers));
    Sum outside;
    outside.add(spec.before);
    outside.add(spec.after);
    CHECK(outside == listed(inventory, -1));
    Sum all = outside;
    for (int layer = 0; layer < config.num_hidden_layers; ++layer) {
      Sum of_layer;
      of_layer.add(spec.layer(layer).modules);
      CHECK(of_layer == listed(inventory, layer));
      all.add(spec.layer(layer).modules);
    }
    CHECK(all.numel == inventory.total());
  }
}

TEST_CASE("a role is there once in a layer, and distinct layers are described once") {
  for (const ModelConfig& config : all_cases()) {
    INFO(config.text);
    const DecoderSpec spec = describe(config);
    for (size_t i = 0; i < spec.kinds.size(); ++i) {
      std::set<Role> roles;
      for (const ModuleSpec& module : spec.kinds[i].modules) {
        CHECK(roles.insert(module.role).second);
        CHECK(spec.kinds[i].find(module.role) == &module);
      }
      for (size_t j = 0; j < i; ++j) CHECK_FALSE(spec.kinds[i] == spec.kinds[j]);
    }
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      CHECK(describe(config, layer) == spec.layer(layer));
    }
    REQUIRE(spec.find(Role::kHead) != nullptr);
    CHECK(spec.find(Role::kHead)->stored != spec.tied);
    CHECK(spec.find(Role::kEmbedding)->out == config.vocab_size);
  }
}

int64_t out_of(const LayerSpec& layer, Role role) {
  const ModuleSpec* module = layer.find(role);
  return module == nullptr ? 0 : module->out;
}

TEST_CASE("widths agree with the heads that attention counts") {
  for (const ModelConfig& config : all_cases()) {
    INFO(config.text);
    for (const LayerSpec& layer : describe(config).kinds) {
      const AttentionSpec& a = layer.attention;
      CHECK(layer.find(Role::kAttentionOut)->in == a.heads * a.v_width);
      const int64_t queries = a.heads * a.qk_width;
      if (a.latent) {
        CHECK(out_of(layer, Role::kQuery) + out_of(layer, Role::kQueryUp) == queries);
      } else if (a.fused == AttentionSpec::Fused::kNo) {
        CHECK(out_of(layer, Role::kQuery) == queries);
        CHECK(out_of(layer, Role::kKey) == a.key_heads * a.qk_width);
        CHECK(out_of(layer, Role::kValue) == a.key_heads * a.v_width);
      } else {
        CHECK(out_of(layer, Role::kQkv) == queries + a.key_heads * (a.qk_width + a.v_width));
      }
    }
  }
}

TEST_CASE("slices cover a fused matrix, and grains divide what they are of") {
  for (const ModelConfig& config : all_cases()) {
    INFO(config.text);
    for (const LayerSpec& layer : describe(config).kinds) {
      for (const ModuleSpec& module : layer.modules) {
        int64_t length = 0;
        for (const am::model::Slice& slice : module.slices) length += slice.length;
        CHECK((module.slices.empty() || length == module.out));
        CHECK(module.out % module.grain == 0);
      }
    }
  }
}

// The residual stream is read and written through every way in and out.
TEST_CASE("what reads the hidden state is as long as it, and so is what writes it") {
  for (const ModelConfig& config : all_cases()) {
    INFO(config.text);
    for (const LayerSpec& layer : describe(config).kinds) {
      for (const ModuleSpec& module : layer.modules) {
        if (module.in == 0) {
          const bool over_hidden =
              module.kind == ModuleKind::kNorm && module.from == Space::kHidden;
          if (over_hidden) CHECK(module.out == config.hidden_size);
          continue;
        }
        const bool reads = module.from == Space::kHidden || module.from == Space::kRouted;
        const bool writes = module.to == Space::kHidden || module.to == Space::kRouted;
        if (reads) CHECK(module.in == config.hidden_size);
        if (writes) CHECK(module.out == config.hidden_size);
      }
    }
  }
}

}  // namespace
