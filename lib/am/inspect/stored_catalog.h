// Tensors at rest by name: the metadata of a folder of weights or a checkpoint.
//
// Used by one process, for any number of stored ranks. values/stored_view.h adds reading and
// computing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/config/plan.h"
#include "am/inspect/tensor_catalog.h"
#include "am/model/config.h"
#include "am/stored/tensor_source.h"

namespace am::inspect {

class StoredCatalog : public virtual TensorCatalog {
 public:
  // Reads config.json, plan.toml or checkpoint.json beside the weights, and throws their readers'
  // errors. Weights alone suffice for everything except running the model.
  explicit StoredCatalog(std::unique_ptr<stored::TensorSource> source);

  std::string title() const override { return title_; }
  Json info() override;
  std::string note() const override;
  const std::vector<HeldParameter>& parameters() const override { return parameters_; }
  std::span<const HeldParameter> states() const override { return states_; }
  const mesh::MeshLayout& mesh() const override { return mesh_; }
  bool at_rest() const override { return true; }
  const stored::TensorSource* source() const override { return source_.get(); }
  std::vector<std::string> value_names() const override;
  Json value(std::string_view name) const override;
  DefaultTokenizer default_tokenizer() const override { return tokenizer_; }
  std::vector<HeldBytes> held_bytes() override;

 protected:
  const std::optional<model::ModelConfig>& config() const { return config_; }
  // Reason why the model cannot be run; empty: it can.
  const std::string& config_problem() const { return config_problem_; }
  // Adapters with which an am-run checkpoint was trained; their rank is 0 if there are none.
  const config::LoraSection& lora() const { return lora_; }
  // Dtype in which the model is run.
  formats::Dtype compute_dtype() const { return compute_dtype_; }
  void choose_compute_dtype(formats::Dtype dtype) { compute_dtype_ = dtype; }

 private:
  void read_checkpoint_facts();
  bool has_mesh() const;
  const stored::TensorSource& values_source() const;
  HeldParameter held(const stored::StoredTensor& stored) const;

  std::unique_ptr<stored::TensorSource> source_;
  mutable std::unique_ptr<stored::TensorSource> values_;  // of am-run checkpoints; opened lazily
  std::optional<Json> checkpoint_info_;                   // training state in am-run checkpoints
  std::optional<model::ModelConfig> config_;
  std::string config_problem_;
  config::LoraSection lora_;
  std::optional<int64_t> step_;
  mesh::MeshLayout mesh_;
  std::map<std::string, std::vector<std::pair<std::string, mesh::Placement>>> placements_;
  std::string note_;  // why placements are unknown; empty: they are known, or there is no plan
  std::string title_;
  DefaultTokenizer tokenizer_;
  std::vector<HeldParameter> parameters_;
  std::vector<HeldParameter> states_;
  formats::Dtype compute_dtype_ = formats::Dtype::kFloat32;
};

}  // namespace am::inspect
