// Lists all parameters of a model, with their names on the Hugging Face hub, their shapes and their
// initialisation, without allocating tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/shape.h"
#include "am/model/spec.h"

namespace am::model {

// Part of a LoRA adapter: the matrix A [rank, in], the matrix B [out, rank], or DoRA's magnitudes
// [out]. kNone: the parameter does not belong to an adapter.
enum class AdapterPart : uint8_t { kNone, kA, kB, kMagnitude };

struct ParameterSpec {
  // Name in the hub's safetensors files, for example "model.layers.0.self_attn.q_proj.weight".
  std::string name;
  Shape shape;                                   // global shape, before any sharding
  ModuleKind module_kind = ModuleKind::kLinear;  // kind of the parameter's module
  Role role = Role::kHead;                       // role of the parameter's module
  bool bias = false;
  Init init = Init::kNormal;
  int layer = -1;           // index of the decoder layer; -1 for parameters outside the layers
  bool transposed = false;  // a linear weight stored [in, out] (GPT-2's Conv1D), not [out, in]
  AdapterPart adapter = AdapterPart::kNone;

  // Whether the parameter's module runs before the layers: the embedding, learned positions, and
  // the embedding's norm.
  bool is_before_layers() const {
    return module_kind == ModuleKind::kEmbedding || role == Role::kEmbeddingNorm;
  }
  // Returns the name of the parameter's module: `name` without leaf().
  std::string module() const;
  // Returns the index of the routed expert to which the parameter belongs. Returns nothing for all
  // other parameters, including tensors that contain all experts.
  std::optional<int64_t> expert() const;
  std::string leaf() const;  // name within the module, for example "weight" or "lora_A.weight"
};

struct Inventory {
  // Parameters, in the order of transformers' named_parameters().
  std::vector<ParameterSpec> parameters;
  // Whether the head uses the embedding's weight. `parameters` then contains the head's bias (if
  // any), but no lm_head.weight.
  bool tied_lm_head = false;
  ModuleNames names;
  DecoderSpec spec;  // description of the model from which `parameters` was made

  int64_t total() const;  // number of elements of all parameters; a tied weight counts once
  const ParameterSpec* find(std::string_view name) const;
  // Returns the index in `parameters` of the weight of the module with this role outside the
  // layers. The module must exist. For a tied head, returns the index of the embedding's weight.
  size_t weight_of(Role role) const;
};

Inventory build_inventory(const ModelConfig& config);
Inventory build_inventory(DecoderSpec spec);
// Returns the inventory with only the first layer of each kind (DecoderSpec::kinds), and with all
// parameters outside the layers.
Inventory sample_inventory(const ModelConfig& config);
Inventory sample_inventory(DecoderSpec spec);

// Returns the name with the layer's index and the expert's index replaced by `*`, for example
// "model.layers.*.mlp.experts.*.up_proj". A name outside the layers (`layer` is -1) is returned
// unchanged.
std::string any_layer_name(std::string_view name, int layer);

// An FSDP unit is a set of parameters that FSDP gathers and frees together. The units of a model
// are the embedding (with learned positions and the embedding's norm, if any), each decoder layer,
// the head, and last the root, which contains all other parameters (the final norm). A tied head
// belongs to the embedding's unit. A unit has the name of its module; the root's name is "".
enum class UnitKind : uint8_t { kEmbedding, kLayer, kHead, kRoot };
struct Unit {
  UnitKind kind = UnitKind::kRoot;
  std::string name;
  std::vector<int> parameters;  // indices into Inventory::parameters
  int layer = -1;               // index of the decoder layer; -1 for other kinds
};
// Returns the FSDP units of the model: the embedding, the layers in order, the head, the root. A
// tied head has no unit of its own.
std::vector<Unit> shard_units(const Inventory& inventory);

}  // namespace am::model
