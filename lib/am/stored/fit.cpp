#include "am/stored/fit.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/model/quantization.h"

namespace am::stored {

namespace {

// Suffixes of the names of tables and masks that older versions of transformers saved with a model.
// Newer versions recompute them and ignore saved ones.
constexpr std::array<std::string_view, 6> kComputed = {
    "rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached",
    ".attn.bias",          ".attn.masked_bias",     ".position_ids"};

constexpr std::array<std::string_view, 7> kQuantized = {
    "weight_scale", "weight_scale_inv", "input_scale", ".SCB", ".absmax", ".qzeros", ".scales"};
// Suffixes of the names of MXFP4 tensors (blocks of four-bit floats with one scale each), for
// example of gpt-oss's experts.
constexpr std::array<std::string_view, 2> kMxfp4 = {"_proj_blocks", "_proj_scales"};

bool ends_with_one(std::string_view name, const auto& ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return ends_with(name, end); });
}

struct Misfits {
  std::vector<Misfit> wrong;       // the model's parameters that are missing or differ
  std::vector<std::string> extra;  // names of the tensors that the model does not have
  bool quantized = false;
  bool mxfp4 = false;
  bool adapter = false;
};

void compare_parameters(const layout::Layout& layout, const TensorSource& source, Misfits& misfit) {
  // If the source stores no adapters at all, training adds new adapters to its base weights, so the
  // model's adapters do not count as missing.
  const bool adapters = has_stored_adapters(layout.inventory, source);
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const auto& parameter = layout.parameters[i];
    const StoredTensor* stored = source.find(parameter.name);
    const bool adapter = layout.inventory.parameters[i].adapter != model::AdapterPart::kNone;
    if (stored == nullptr && adapter && !adapters) continue;
    if (stored == nullptr) {
      misfit.wrong.push_back({parameter.name, "is missing"});
    } else if (stored->shape != parameter.shape) {
      misfit.wrong.push_back(
          {parameter.name, cat("is ", shape_text(stored->shape), ", but the config requires ",
                               shape_text(parameter.shape))});
    } else if (!holds_values(stored->dtype)) {
      misfit.wrong.push_back({parameter.name, cat("is ", formats::safetensors_name(stored->dtype),
                                                  ", a quantised or packed format")});
      misfit.quantized = true;
    }
  }
}

// Returns whether the tensor belongs to a layer for multi-token prediction. Checkpoints number
// these layers after the last decoder layer; automesh does not train these layers.
bool is_behind_layers(std::string_view name, const layout::Layout& layout,
                      const model::ModelConfig& config) {
  const std::string prefix = cat(layout.inventory.names.layers, ".");
  if (config.mtp_layers == 0 || !starts_with(name, prefix)) return false;
  const std::string_view number =
      name.substr(prefix.size(), name.find('.', prefix.size()) - prefix.size());
  const auto layer = parse_integer(number);
  return layer.has_value() && *layer >= config.num_hidden_layers &&
         *layer < config.num_hidden_layers + config.mtp_layers;
}

void find_extra(const layout::Layout& layout, const model::ModelConfig& config,
                const TensorSource& source, Misfits& misfit) {
  std::set<std::string_view> wanted;
  for (const auto& parameter : layout.parameters) wanted.insert(parameter.name);
  // Files may contain a separate tensor for the head although the head is tied to the embedding.
  const std::string head = cat(layout.inventory.names.head, ".weight");
  if (layout.inventory.tied_lm_head) wanted.insert(head);
  for (const StoredTensor& stored : source.tensors()) {
    if (wanted.count(stored.name) != 0 || ends_with_one(stored.name, kComputed)) continue;
    if (is_behind_layers(stored.name, layout, config)) continue;
    misfit.extra.push_back(stored.name);
    misfit.quantized = misfit.quantized || ends_with_one(stored.name, kQuantized);
    misfit.mxfp4 = misfit.mxfp4 || ends_with_one(stored.name, kMxfp4);
    misfit.adapter = misfit.adapter || stored.name.find(".lora_") != std::string::npos;
  }
}

std::string first_ones(std::vector<std::string> all, const char* separator) {
  constexpr size_t kShown = 8;
  const size_t more = all.size() > kShown ? all.size() - kShown : 0;
  if (more > 0) all.resize(kShown);
  return cat(join(all, separator), more > 0 ? cat(separator, "and ", more, " more") : "");
}

constexpr const char* kMxfp4Help =
    "these weights are packed 4-bit values: convert them once with transformers, "
    "AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16, "
    "quantization_config=Mxfp4Config(dequantize=True)).save_pretrained(FOLDER), and load FOLDER";

std::string help_for(const Misfits& misfit) {
  if (misfit.mxfp4) return kMxfp4Help;
  if (misfit.quantized) {
    return "these weights are quantised: dequantise them to bfloat16 or float32 (transformers' "
           "dequantize()) and load those";
  }
  if (misfit.adapter)
    return "these tensors belong to a LoRA adapter: name its folder in lora.weights, or merge it "
           "into its base model (PEFT's merge_and_unload)";
  return "set model.path and model.weights to the same model";
}

void check_quantization(const model::ModelConfig& config, const TensorSource& source) {
  // Skips other formats: a checkpoint of am-run, for example, contains weights that are not
  // quantised, even if the config.json beside it has a quantization_config.
  if (source.format() != "huggingface") return;
  const bool has_config = !source.config_file().empty();
  const std::string method =
      model::quantization_of(has_config ? read_file(source.config_file()) : config.text);
  if (method.empty()) return;
  const bool mxfp4 = method == "mxfp4";
  throw Error(ErrorKind::kFormat,
              cat(has_config ? source.config_file().string() : config.file,
                  ": its quantization_config (", method, ") marks the weights as quantised"),
              mxfp4 ? kMxfp4Help
                    : "dequantise them to bfloat16 or float32 (transformers' dequantize()) and "
                      "load those; if they are already dequantised, remove quantization_config");
}

}  // namespace

bool has_stored_adapters(const model::Inventory& inventory, const TensorSource& source) {
  return std::any_of(inventory.parameters.begin(), inventory.parameters.end(),
                     [&](const model::ParameterSpec& parameter) {
                       return parameter.adapter != model::AdapterPart::kNone &&
                              source.find(parameter.name) != nullptr;
                     });
}

bool holds_values(formats::Dtype dtype) {
  return dtype == formats::Dtype::kFloat32 || dtype == formats::Dtype::kBFloat16 ||
         dtype == formats::Dtype::kFloat16 || dtype == formats::Dtype::kFloat64;
}

std::vector<Misfit> find_misfits(const layout::Layout& layout, const model::ModelConfig& config,
                                 const TensorSource& source) {
  Misfits misfit;
  compare_parameters(layout, source, misfit);
  find_extra(layout, config, source, misfit);
  std::vector<Misfit> all = std::move(misfit.wrong);
  for (std::string& name : misfit.extra)
    all.push_back({std::move(name), "is not a parameter of the model"});
  return all;
}

void check_fit(const layout::Layout& layout, const model::ModelConfig& config,
               const TensorSource& source) {
  check_quantization(config, source);
  Misfits misfit;
  compare_parameters(layout, source, misfit);
  find_extra(layout, config, source, misfit);
  std::vector<std::string> parts;
  std::vector<std::string> wrong;
  for (const Misfit& each : misfit.wrong) wrong.push_back(cat(each.name, " ", each.what));
  if (!wrong.empty()) parts.push_back(first_ones(std::move(wrong), "; "));
  if (!misfit.extra.empty()) {
    parts.push_back(cat("the checkpoint has ", misfit.extra.size(),
                        misfit.extra.size() == 1 ? " tensor that the model does not have: "
                                                 : " tensors that the model does not have: ",
                        first_ones(misfit.extra, ", ")));
  }
  if (parts.empty()) return;
  throw Error(ErrorKind::kFormat,
              cat(source.path().string(), ": does not fit the model: ", join(parts, "; ")),
              help_for(misfit));
}

}  // namespace am::stored
