// The names and shapes of a model's parameters (model/inventory.h), for files that have them in
// another form.
//
//   const HubNames named(*source, inventory);
//   named.read("model.layers.0.mlp.experts.7.up_proj.weight", box, out);   // of mlp.experts.gate_up_proj
//
// Files of the hub have a tensor for each matrix. What is read besides: the experts of a layer in
// two tensors, as transformers 5 holds them in memory, and saves under
// save_original_format = False; files of the model without its head, whose names lack the first
// component ("h.0.attn.c_attn.weight" of GPT-2); a tied head that stands for the embedding;
// adapters under PEFT's names (peft.h), with the name that PEFT has given them
// ("lora_A.default.weight") and the base layers beside them; and all of these behind one prefix
// ("net.model.norm.weight").
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "am/model/inventory.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// What stands before a model's names in files of PEFT.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";

// Where a file may have a parameter.
struct Place {
  std::string name;
  Shape shape;   // of the stored tensor, which may have more dimensions in front
  Shape offset;  // of the parameter's first element in it
};
// The hub's own place first.
std::vector<Place> places_of(const model::ParameterSpec& parameter,
                             const model::Inventory& inventory);

class HubNames : public TensorSource {
 public:
  // `source` must outlive this. Throws Error(kFormat) where the model's names are found behind
  // several prefixes: two models in one file.
  HubNames(const TensorSource& source, const model::Inventory& inventory);

  std::string format() const override { return source_.format(); }
  std::filesystem::path path() const override { return source_.path(); }
  // Parameters that were found under their names; what belongs to none under the file's.
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override {
    return source_.optimizer_tensors();
  }
  void read(std::string_view name, const mesh::Box& box, const Destination& out) const override;
  // The prefix of the model's names in the source, which is taken off.
  const std::string& prefix() const { return prefix_; }
  std::filesystem::path config_file() const override { return source_.config_file(); }

 private:
  const TensorSource& source_;
  std::string adapter_;  // "default" of "lora_A.default.weight"
  std::string prefix_;   // of the model's names in the source
  std::vector<StoredTensor> tensors_;
  std::map<std::string, Place, std::less<>>
      elsewhere_;  // parameters that are not at their own place
};

}  // namespace am::stored
