// Maps a model's parameter names and shapes (model/inventory.h) to files that store them in another
// form.
//
//   const HubNames named(*source, inventory);
//   named.read("model.layers.0.mlp.experts.7.up_proj.weight", box, out);   // of mlp.experts.gate_up_proj
//
// Files of the hub have a tensor for each matrix. Other supported forms: a layer's experts in two
// tensors, as transformers 5 holds them in memory and saves with save_original_format = False;
// files of the model without its head, whose names lack the first component
// ("h.0.attn.c_attn.weight" of GPT-2); a tied head stored instead of the embedding; adapters with
// PEFT's names (peft.h), with their PEFT adapter name ("lora_A.default.weight") and the base layers
// beside them; and all of these with a common prefix ("net.model.norm.weight").
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "am/model/inventory.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// Prefix of a model's names in files of PEFT.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";

// A possible location of a parameter in a file.
struct Place {
  std::string name;
  Shape shape;   // of the stored tensor, which may have additional leading dims
  Shape offset;  // of the parameter's first element in the stored tensor
};
// Returns the possible locations; the hub's own is first.
std::vector<Place> places_of(const model::ParameterSpec& parameter,
                             const model::Inventory& inventory);

class HubNames : public TensorSource {
 public:
  // `source` must outlive this. Throws Error(kFormat) if the model's names occur with several
  // prefixes, i.e. if the file contains two models.
  HubNames(const TensorSource& source, const model::Inventory& inventory);

  std::string format() const override { return source_.format(); }
  std::filesystem::path path() const override { return source_.path(); }
  // Parameters that were found, with their names; other tensors with the file's names.
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override {
    return source_.optimizer_tensors();
  }
  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override;
  // The prefix of the model's names in the source, which is removed.
  const std::string& prefix() const { return prefix_; }
  std::filesystem::path config_file() const override { return source_.config_file(); }

 private:
  const TensorSource& source_;
  std::string adapter_;  // "default" of "lora_A.default.weight"
  std::string prefix_;   // of the model's names in the source
  std::vector<StoredTensor> tensors_;
  std::map<std::string, Place, std::less<>>
      elsewhere_;  // parameters that are not at the hub's location
};

}  // namespace am::stored
