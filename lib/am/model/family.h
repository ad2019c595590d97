// Describes a model family, for example Llama or Gemma 2: how its config is read, and which modules
// its layers have.
//
// A family is a `Family` value in a file of families/. The family's layers are composed of the
// blocks of families/blocks.h. To add a family, write its file, declare the value in
// families/families.h and list it in families/registry.cpp. Everything else (parameters, shards,
// operations, memory) is derived from the family's LayerSpecs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/model/config.h"
#include "am/model/config_reader.h"
#include "am/model/spec.h"
#include "am/model/tp_plan.h"

namespace am::model {

// Names of config.json keys that most families have; the defaults are Llama's. An empty name means
// that configs of the family have no such key.
struct ConfigKeys {
  std::string_view hidden_size = "hidden_size";
  std::string_view intermediate_size = "intermediate_size";
  std::string_view layers = "num_hidden_layers";
  // Empty if no layer has attention (Mamba), or if other keys determine the number of heads
  // (JetMoE).
  std::string_view heads = "num_attention_heads";
  std::string_view key_value_heads = "num_key_value_heads";
  std::string_view head_dim = "head_dim";
  std::string_view positions = "max_position_embeddings";
  std::string_view norm_eps = "rms_norm_eps";
  std::string_view activation = "hidden_act";
  // Other spellings of keys for sizes, as {key, other spelling}. transformers reads both spellings.
  std::array<std::pair<std::string_view, std::string_view>, 3> spellings = {};
};

// Values of keys that are missing in a config: the defaults of transformers' configuration class.
struct ConfigDefaults {
  int64_t max_position_embeddings = 2048;
  std::optional<int64_t> key_value_heads = {};  // absent: the default is the number of query heads
  std::optional<int64_t> head_dim = {};  // absent: the default is hidden_size / num_attention_heads
  double norm_eps = 1e-6;
  double rope_theta = 10000.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  std::string_view hidden_act = "silu";
  std::optional<int64_t> pad_token_id = {};
  // Default intermediate_size as a multiple of hidden_size. 0: the default is `intermediate_size`
  // below.
  int64_t intermediate_ratio = 0;
  // Defaults of the configuration class for the five sizes; 0: the size has no default. They apply
  // only to the text part of a multimodal config. Other configs must state their sizes, because the
  // default sizes are rarely intended.
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
};

struct Family {
  std::string_view model_type;
  std::string_view description;  // one line about the family, for the documentation
  // Full path of the decoder layer class in transformers, for example
  // "transformers.models.llama.modeling_llama.LlamaDecoderLayer".
  std::string_view layer_class;
  ConfigKeys keys = {};
  ConfigDefaults defaults = {};
  bool runs = true;    // am-run computes its layers; false: am-plan plans them, am-run refuses them
  bool rotary = true;  // whether head_dim must be even, as RoPE requires
  // Whether transformers' class of the family applies partial_rotary_factor; other classes ignore
  // this key.
  bool rotates_part = false;
  NormKind norm = NormKind::kRms;
  bool norm_weights = true;       // the norms have weights
  bool scales_embedding = false;  // embeddings are multiplied by sqrt(hidden_size)
  int64_t positions_offset = 0;   // row of position 0 in the table of learned positions
  // Whether transformers' class passes pad_token_id to nn.Embedding as padding_idx.
  bool pads_embedding = true;
  ModuleNames names = {};
  // Reads the additional keys of the family (biases, norms, windows, experts), after the common
  // keys have been read.
  void (*read_config)(ConfigReader& reader, ModelConfig& config) = nullptr;
  // Returns the description of one decoder layer in [0, num_hidden_layers).
  LayerSpec (*describe_layer)(const ModelConfig& config, int64_t layer) = nullptr;
};

// Returns all families, in the order of families/registry.cpp.
std::span<const Family* const> families();
// Returns the family with this model_type, or null if there is none.
const Family* find_family(std::string_view model_type);
// Returns the model_type of each family, in the order of families(), for example "llama".
std::vector<std::string> family_names();
// Returns the family of the config's model_type, or Llama's family for an unknown model_type.
const Family& family_of(const ModelConfig& config);

}  // namespace am::model
