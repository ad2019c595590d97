// Every parameter of a model, without a tensor: hub names, shapes, and how each is initialised.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/shape.h"
#include "am/model/config.h"

namespace am::model {

enum class Init { kNormal, kOnes, kZeros };

// What the owning module is: it decides which parallel styles fit.
enum class ModuleKind { kEmbedding, kLinear, kNorm };

struct ParameterSpec {
  std::string name;  // as in the hub's safetensors: "model.layers.0.self_attn.q_proj.weight"
  Shape shape;       // global
  ModuleKind module_kind = ModuleKind::kLinear;
  Init init = Init::kNormal;
  int layer = -1;  // decoder layer, -1 outside of them

  std::string module() const;  // name without the last component
  std::string leaf() const;    // "weight" or "bias"
};

struct Inventory {
  std::vector<ParameterSpec> parameters;  // in the order of transformers' named_parameters()
  // lm_head.weight is model.embed_tokens.weight, and is not listed among the parameters.
  bool tied_lm_head = false;

  int64_t total() const;  // ties counted once
  const ParameterSpec* find(std::string_view name) const;
};

Inventory build_inventory(const ModelConfig& config);

// A unit is what FSDP gathers and frees as one: the embedding, each decoder layer, the head, and
// last the root with everything left (the final norm). A tied head belongs to the embedding's unit.
// Unit names are module names; the root's is "".
struct Unit {
  std::string name;
  std::vector<int> parameters;  // indices into Inventory::parameters
  int layer = -1;
};
std::vector<Unit> shard_units(const Inventory& inventory);

}  // namespace am::model
