// Lists the tensors of a checkpoint, or of a folder of weights, by name, from metadata only.
//
// A single process opens the catalog, regardless of the number of ranks that wrote the checkpoint.
// The class StoredView (values/stored_view.h) also reads the values and computes with them.
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

class StoredCatalog : public TensorCatalog {
 public:
  // Reads config.json and, for a checkpoint of am-run, plan.toml and checkpoint.json in the folder
  // of the weights. Throws the errors of read_checkpoint_info() for checkpoint.json; the other two
  // files may be missing or invalid. Without config.json, the model cannot be run, and placements
  // are not known.
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

  // Returns the contents of config.json; nullopt if the file is missing or invalid.
  const std::optional<model::ModelConfig>& config() const { return config_; }
  // Returns the reason why the model cannot be run; empty if it can be run.
  const std::string& config_problem() const { return config_problem_; }
  // Returns the LoRA settings with which a checkpoint of am-run was trained; `rank` is 0 if the
  // checkpoint has no adapters.
  const config::LoraSection& lora() const { return lora_; }
  // Returns the dtype in which the model is run.
  formats::Dtype compute_dtype() const { return compute_dtype_; }
  void choose_compute_dtype(formats::Dtype dtype) { compute_dtype_ = dtype; }

 private:
  void read_checkpoint_facts();
  bool has_mesh() const;
  const stored::TensorSource& values_source() const;
  HeldParameter held(const stored::StoredTensor& stored) const;

  std::unique_ptr<stored::TensorSource> source_;
  // Second source, for stored values that are not tensors; see values_source(), which opens it.
  // Null before the first use, or if source_ reads these values.
  mutable std::unique_ptr<stored::TensorSource> values_;
  std::optional<Json> checkpoint_info_;  // training state of a checkpoint of am-run, by name
  std::optional<model::ModelConfig> config_;
  std::string config_problem_;
  config::LoraSection lora_;
  std::optional<int64_t> step_;
  mesh::MeshLayout mesh_;
  std::map<std::string, std::vector<std::pair<std::string, mesh::Placement>>> placements_;
  std::string note_;  // why the plan in the checkpoint yields no placements; may be empty
  std::string title_;
  DefaultTokenizer tokenizer_;
  std::vector<HeldParameter> parameters_;
  std::vector<HeldParameter> states_;
  formats::Dtype compute_dtype_ = formats::Dtype::kFloat32;
};

}  // namespace am::inspect
