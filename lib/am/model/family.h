// What one model family adds to the common decoder: reading its config and naming its
// parameters.
//
// A family is one file in families/: a `Family` value whose layers are composed of the blocks of
// families/blocks.h. To add one, write the file and list it in families/registry.cpp. All else
// (the inventory, cuts, operations, memory) follows from its LayerSpecs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/model/config.h"
#include "am/model/config_reader.h"
#include "am/model/spec.h"
#include "am/model/tp_plan.h"

namespace am::model {

// The keys under which a config.json says what every decoder has.
struct ConfigKeys {
  std::string_view hidden_size = "hidden_size";
  std::string_view intermediate_size = "intermediate_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view key_value_heads = "num_key_value_heads";
  std::string_view head_dim = "head_dim";  // empty: the family has no such key
  std::string_view positions = "max_position_embeddings";
  std::string_view norm_eps = "rms_norm_eps";
  std::string_view activation = "hidden_act";
};

// What a config that leaves a key out means: the defaults of transformers' configuration class.
struct ConfigDefaults {
  int64_t max_position_embeddings = 2048;
  std::optional<int64_t> key_value_heads = {};  // nothing: as many as query heads
  std::optional<int64_t> head_dim = {};         // nothing: hidden_size / num_attention_heads
  double norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool tie_word_embeddings = false;
  std::string_view hidden_act = "silu";
  std::optional<int64_t> pad_token_id = {};
  int64_t intermediate_ratio = 0;  // of hidden_size, where the key may be absent; 0: it may not
  // The five sizes have no default in a config of their own (some 7B model is never meant). The
  // text part of a multimodal config leaves them out when they are the class's: 0 where unknown.
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
};

struct Family {
  std::string_view model_type;
  std::string_view description;  // one line for the docs
  // The class of a decoder layer in transformers: "transformers.models.llama.modeling_llama.L...".
  std::string_view layer_class;
  ConfigKeys keys = {};
  ConfigDefaults defaults = {};
  bool rotary = true;  // heads are rotated, so that their width is even
  // A part of a head turns by partial_rotary_factor; other classes have the key and pass over it.
  bool rotates_part = false;
  NormKind norm = NormKind::kRms;
  bool scales_embedding = false;  // by the root of hidden_size
  bool pads_embedding = true;     // the class gives nn.Embedding its pad_token_id
  ModuleNames names = {};
  // Fills what is this family's own (biases, norms, windows, experts) after the common keys.
  void (*read_config)(ConfigReader& reader, ModelConfig& config) = nullptr;
  // What one decoder layer, in [0, num_hidden_layers), is made of.
  LayerSpec (*describe_layer)(const ModelConfig& config, int64_t layer) = nullptr;
};

std::span<const Family* const> families();
const Family* find_family(std::string_view model_type);
// "llama", "mistral", ... in the registry's order.
std::vector<std::string> family_names();
// The config's family: that of its model_type, or Llama's, whose shape an unknown one is read as.
const Family& family_of(const ModelConfig& config);

}  // namespace am::model
