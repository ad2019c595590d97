// Finds a model's parameters (model/inventory.h) in files that store them under other names or
// inside larger tensors.
//
//   const HubNames named(*source, inventory);
//   // Reads from a part of the stored tensor model.layers.0.mlp.experts.gate_up_proj:
//   named.read("model.layers.0.mlp.experts.7.up_proj.weight", box, out);
//
// Usually, files of the Hugging Face hub have one tensor per matrix. Other supported forms:
//   - the experts of a layer in two stacked tensors, as transformers 5 holds them in memory, and as
//     its save_pretrained writes them with save_original_format = False
//   - a model without its LM head, whose names lack the first component ("h.0.attn.c_attn.weight")
//   - the weight of a tied head instead of the embedding's
//   - adapters with PEFT's names (peft.h) and adapter name ("lora_A.default.weight"), and the base
//     layers beside them
//   - any of these with a common prefix, for example "net." in "net.model.norm.weight"
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "am/model/inventory.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// Prefix of parameter names in PEFT's files.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";

// Location of a parameter in a file: the name of a stored tensor, and the parameter's position in
// this tensor.
struct Place {
  std::string name;
  Shape shape;   // shape of the stored tensor, which may have additional leading dims
  Shape offset;  // index of the parameter's first element in the stored tensor
};
// Returns the locations at which files may store a parameter. The first location is the usual
// location in files of the hub.
std::vector<Place> places_of(const model::ParameterSpec& parameter,
                             const model::Inventory& inventory);

class HubNames : public TensorSource {
 public:
  // `source` must outlive this object. Throws Error(kFormat) if the names of the model's parameters
  // occur equally often with two prefixes, and neither prefix begins with the other: the file then
  // contains several models.
  HubNames(const TensorSource& source, const model::Inventory& inventory);

  std::string format() const override { return source_.format(); }
  std::filesystem::path path() const override { return source_.path(); }
  // Returns the parameters of the model that were found, under the model's names, and all other
  // stored tensors, under their stored names without prefix().
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override {
    return source_.optimizer_tensors();
  }
  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override;
  // Returns the prefix that the file adds to the names of the model's parameters, for example
  // "net."; may be empty. Names in tensors() do not contain this prefix.
  const std::string& prefix() const { return prefix_; }
  std::filesystem::path config_file() const override { return source_.config_file(); }

 private:
  const TensorSource& source_;
  std::string adapter_;  // PEFT's adapter name in the file, for example "default"
  std::string prefix_;   // prefix of the model's names in the file
  std::vector<StoredTensor> tensors_;
  // Locations of the tensors that are stored under another name or inside a larger tensor, by their
  // names in tensors().
  std::map<std::string, Place, std::less<>> elsewhere_;
};

}  // namespace am::stored
