#include "am/model/spec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "am/model/families/blocks.h"
#include "am/model/family.h"

namespace am::model {
namespace {

const ModuleSpec* find_role(const std::vector<ModuleSpec>& modules, Role role) {
  const auto found = std::find_if(modules.begin(), modules.end(),
                                  [&](const ModuleSpec& module) { return module.role == role; });
  return found == modules.end() ? nullptr : &*found;
}

double matrix_numel(const ModuleSpec& module) {
  return static_cast<double>(module.out) * static_cast<double>(module.in);
}

std::vector<RopeSpec> ropes_of(const ModelConfig& config) {
  std::vector<RopeSpec> ropes = {config.rope};
  if (config.local_rope.has_value()) ropes.push_back(*config.local_rope);
  return ropes;
}

}  // namespace

int64_t ModuleSpec::weight_numel() const {
  return stored ? copies * out * std::max<int64_t>(in, 1) : 0;
}

int64_t ModuleSpec::bias_numel() const { return bias ? copies * out : 0; }

int64_t ModuleSpec::tensors() const {
  const int64_t one = (stored ? 1 : 0) + (bias ? 1 : 0);
  return stacked || joined ? one : copies * one;
}

bool multiplies_in_fp8(const ModuleSpec& module) {
  switch (module.role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kQkv:
    case Role::kQueryDown:
    case Role::kQueryUp:
    case Role::kKeyValueDown:
    case Role::kKeyValueUp:
    case Role::kAttentionOut:
    case Role::kGate:
    case Role::kUp:
    case Role::kGateUp:
    case Role::kDown:
      return module.out % kFp8Multiple == 0 && module.in % kFp8Multiple == 0;
    default:
      return false;
  }
}

const ModuleSpec* LayerSpec::find(Role role) const { return find_role(modules, role); }

int LayerSpec::hidden_norms() const {
  return static_cast<int>(std::count_if(modules.begin(), modules.end(), [](const ModuleSpec& each) {
    return each.kind == ModuleKind::kNorm && each.from == Space::kHidden;
  }));
}

double LayerSpec::other_weights(bool cut) const {
  double weights = 0.0;
  for (const ModuleSpec& module : modules) {
    const bool is_cut =
        module.other_cut == OtherCut::kRows || module.other_cut == OtherCut::kColumns;
    if (module.role == Role::kOther && module.in > 0 && (is_cut || !cut)) {
      const bool taken = module.kind == ModuleKind::kExpert;
      weights +=
          static_cast<double>(module.weight_numel()) *
          (taken ? static_cast<double>(router->top_k) / static_cast<double>(router->experts) : 1.0);
    }
  }
  return weights;
}

const ModuleSpec* DecoderSpec::find(Role role) const {
  const ModuleSpec* found = find_role(before, role);
  return found != nullptr ? found : find_role(after, role);
}

LayerSpec describe(const ModelConfig& config, int64_t layer) {
  return family_of(config).describe_layer(config, layer);
}

DecoderSpec describe(const ModelConfig& config) {
  const Family& family = family_of(config);
  DecoderSpec spec;
  spec.names = family.names;
  spec.tied = config.tie_word_embeddings;
  spec.ropes = ropes_of(config);
  spec.rounds_embedding_scale = family.scales_embedding;
  spec.embedding_scale = family.scales_embedding
                             ? std::sqrt(static_cast<double>(config.hidden_size))
                             : config.embedding_scale;
  spec.padding_id = config.padding_id;
  spec.positions_offset = family.positions_offset;
  spec.logit_softcap = config.logit_softcap;
  spec.logit_scale = config.logit_scale;
  spec.before = modules_before_layers(config, spec.names);
  spec.after = modules_after_layers(config, spec.names);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    LayerSpec made = describe(config, layer);
    auto kind = std::find(spec.kinds.begin(), spec.kinds.end(), made);
    if (kind == spec.kinds.end()) kind = spec.kinds.insert(kind, std::move(made));
    spec.kind_of_layer.push_back(static_cast<int>(std::distance(spec.kinds.begin(), kind)));
  }
  return spec;
}

std::vector<double> alibi_slopes(int64_t heads, double exponent) {
  const auto power = std::bit_ceil(static_cast<uint64_t>(heads));
  const bool is_power = power == static_cast<uint64_t>(heads);
  std::vector<double> slopes;
  const auto add = [&](uint64_t first, uint64_t step) {
    for (uint64_t i = first; i <= power && std::ssize(slopes) < heads; i += step) {
      slopes.push_back(std::exp2(-exponent * static_cast<double>(i) / static_cast<double>(power)));
    }
  };
  if (is_power) {
    add(1, 1);
  } else {
    add(2, 2);
    add(1, 2);
  }
  return slopes;
}

double matmul_parameters(const LayerSpec& layer) {
  double weights = layer.other_weights();
  for (const ModuleSpec& module : layer.modules) {
    if (module.role == Role::kOther) continue;
    const bool taken = module.kind == ModuleKind::kExpert;
    weights += matrix_numel(module) * (taken ? static_cast<double>(layer.router->top_k) : 1.0);
  }
  return weights;
}

}  // namespace am::model
