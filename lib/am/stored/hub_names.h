// Finds a model's parameters (model/inventory.h) in files that store them under other names or as
// parts of larger tensors.
//
//   const HubNames named(*source, inventory);
//   named.read("model.layers.0.mlp.experts.7.up_proj.weight", box, out);   // of mlp.experts.gate_up_proj
//
// Files of the Hugging Face hub have a tensor for each matrix. Other supported forms are: a layer's
// experts in two tensors, as transformers 5 has them in memory and saves with save_original_format
// = False; files of the model without its head, whose names lack the first component (for example
// GPT-2's "h.0.attn.c_attn.weight"); a tied head stored instead of the embedding; adapters with
// PEFT's names (peft.h), with their PEFT adapter name (for example "lora_A.default.weight") and the
// base layers beside them; and all of these with a common prefix (for example "net." in
// "net.model.norm.weight").
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "am/model/inventory.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// Prefix that PEFT's files add to a model's parameter names.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";

// A location at which a file may store a parameter.
struct Place {
  std::string name;
  Shape shape;   // shape of the stored tensor, which may have additional leading dims
  Shape offset;  // index of the parameter's first element in the stored tensor
};
// Returns the locations at which files may store a parameter; the location in the hub's files is
// first.
std::vector<Place> places_of(const model::ParameterSpec& parameter,
                             const model::Inventory& inventory);

class HubNames : public TensorSource {
 public:
  // `source` must outlive this object. Throws Error(kFormat) if the model's names occur equally
  // often with several prefixes, i.e. if the file contains several models.
  HubNames(const TensorSource& source, const model::Inventory& inventory);

  std::string format() const override { return source_.format(); }
  std::filesystem::path path() const override { return source_.path(); }
  // Returns the model's parameters that were found, under the model's names, and all other tensors
  // under the file's names without prefix().
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override {
    return source_.optimizer_tensors();
  }
  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override;
  // Returns the prefix that the source adds to all names of the model. The names in tensors() lack
  // it.
  const std::string& prefix() const { return prefix_; }
  std::filesystem::path config_file() const override { return source_.config_file(); }

 private:
  const TensorSource& source_;
  std::string adapter_;  // PEFT's adapter name, for example "default" in "lora_A.default.weight"
  std::string prefix_;   // prefix that the source adds to the model's names
  std::vector<StoredTensor> tensors_;
  // Locations of the tensors that the source stores under another name or inside a larger tensor.
  std::map<std::string, Place, std::less<>> elsewhere_;
};

}  // namespace am::stored
