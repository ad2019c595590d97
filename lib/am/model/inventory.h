// All parameters of a model, without tensors: hub names, shapes, and initialisation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/shape.h"
#include "am/model/spec.h"

namespace am::model {

// LoRA factor that a parameter is: A [rank, in], B [out, rank], or none.
enum class AdapterPart : uint8_t { kNone, kA, kB };

struct ParameterSpec {
  std::string name;  // as in the hub's safetensors: "model.layers.0.self_attn.q_proj.weight"
  Shape shape;       // global
  ModuleKind module_kind = ModuleKind::kLinear;
  Role role = Role::kHead;  // its module's role
  bool bias = false;
  Init init = Init::kNormal;
  int layer = -1;           // decoder layer; -1 outside the layers
  bool transposed = false;  // a linear weight stored [in, out] (GPT-2's Conv1D), not [out, in]
  AdapterPart adapter = AdapterPart::kNone;

  std::string module() const;  // name of its module: the parameter's name without the leaf
  // Index of the routed expert that the parameter belongs to. Nothing for other parameters, and for
  // a tensor that holds all experts.
  std::optional<int64_t> expert() const;
  std::string leaf() const;  // "weight", "bias", "lora_A.weight"
};

struct Inventory {
  std::vector<ParameterSpec> parameters;  // in the order of transformers' named_parameters()
  // lm_head.weight is the embedding's weight and not listed among the parameters (its bias is).
  bool tied_lm_head = false;
  ModuleNames names;
  DecoderSpec spec;  // description the parameters were made from

  int64_t total() const;  // number of elements, tied weights counted once
  const ParameterSpec* find(std::string_view name) const;
  // Index in `parameters` of the weight of a module outside the layers; for a tied head, the
  // embedding's. The module must exist.
  size_t weight_of(Role role) const;
};

Inventory build_inventory(const ModelConfig& config);
Inventory build_inventory(DecoderSpec spec);
// As build_inventory, with only the first layer of each kind (DecoderSpec::kinds).
Inventory sample_inventory(const ModelConfig& config);
Inventory sample_inventory(DecoderSpec spec);

// Returns the name with the layer index and the expert index replaced by `*`:
// "model.layers.*.mlp.up_proj", "model.layers.*.mlp.experts.*.up_proj". Names outside the layers
// (`layer` -1) are returned unchanged.
std::string any_layer_name(std::string_view name, int layer);

// A unit is a set of parameters that FSDP gathers and frees together: the embedding (with learned
// positions, if any), each decoder layer, the head, and last the root with everything else (the
// final norm). A tied head belongs to the embedding's unit. Unit names are module names; the root's
// is "".
enum class UnitKind : uint8_t { kEmbedding, kLayer, kHead, kRoot };
struct Unit {
  UnitKind kind = UnitKind::kRoot;
  std::string name;
  std::vector<int> parameters;  // indices into Inventory::parameters
  int layer = -1;
};
std::vector<Unit> shard_units(const Inventory& inventory);

}  // namespace am::model
