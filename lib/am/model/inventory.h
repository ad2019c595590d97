// Every parameter of a model, without a tensor: hub names, shapes, and how each is initialised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/shape.h"
#include "am/model/spec.h"

namespace am::model {

// Of a module with an adapter: its own parameters, A [rank, in], B [out, rank].
enum class AdapterPart : uint8_t { kNone, kA, kB };

struct ParameterSpec {
  std::string name;  // as in the hub's safetensors: "model.layers.0.self_attn.q_proj.weight"
  Shape shape;       // global
  ModuleKind module_kind = ModuleKind::kLinear;
  Role role = Role::kHead;  // its module's
  bool bias = false;
  Init init = Init::kNormal;
  int layer = -1;           // decoder layer, -1 outside of them
  bool transposed = false;  // a linear weight stored [in, out] (GPT-2's Conv1D), not [out, in]
  AdapterPart adapter = AdapterPart::kNone;

  std::string module() const;  // that it belongs to: its name without the leaf
  // Of a routed expert's own matrix: which expert. Nothing for a tensor that has all of them.
  std::optional<int64_t> expert() const;
  std::string leaf() const;  // "weight", "bias", "lora_A.weight"
};

struct Inventory {
  std::vector<ParameterSpec> parameters;  // in the order of transformers' named_parameters()
  // lm_head.weight is the embedding's weight, and is not listed among the parameters (a bias is).
  bool tied_lm_head = false;
  ModuleNames names;
  DecoderSpec spec;  // whose modules the parameters are

  int64_t total() const;  // ties counted once
  const ParameterSpec* find(std::string_view name) const;
  // Where the weight of a module outside of the layers is in `parameters`; a tied head's is the
  // embedding's. The module must be there.
  size_t weight_of(Role role) const;
};

Inventory build_inventory(const ModelConfig& config);
Inventory build_inventory(DecoderSpec spec);
// The same with the first layer of each kind alone (DecoderSpec::kinds).
Inventory sample_inventory(const ModelConfig& config);
Inventory sample_inventory(DecoderSpec spec);

// A name with its layer's number, and its expert's, replaced by `*`: "model.layers.*.mlp.up_proj",
// "model.layers.*.mlp.experts.*.up_proj". `layer` is -1 for what is outside of the layers, whose
// names stay.
std::string any_layer_name(std::string_view name, int layer);

// A unit is what FSDP gathers and frees as one: the embedding (with learned positions, where there
// are), each decoder layer, the head, and last the root with everything left (the final norm). A
// tied head belongs to the embedding's unit. Unit names are module names; the root's is "".
enum class UnitKind : uint8_t { kEmbedding, kLayer, kHead, kRoot };
struct Unit {
  UnitKind kind = UnitKind::kRoot;
  std::string name;
  std::vector<int> parameters;  // indices into Inventory::parameters
  int layer = -1;
};
std::vector<Unit> shard_units(const Inventory& inventory);

}  // namespace am::model
