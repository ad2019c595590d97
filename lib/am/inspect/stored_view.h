// A checkpoint folder as a session sees it: shards in files, mapped and read where a command looks.
//
// One process. `unshard` assembles full tensors in its memory, `reshard` drops them. loss, logprob
// and generate load the weights once into a model of one rank, in float32 unless `set dtype` says
// otherwise.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "am/inspect/parameter_view.h"
#include "am/model/config.h"
#include "am/runtime/device_mesh.h"
#include "am/stored/tensor_source.h"

namespace am::inspect {

class StoredView : public ParameterView {
 public:
  // Throws what reading config.json, plan.toml or checkpoint.json beside the weights throws.
  // Weights alone are enough for everything but running the model.
  explicit StoredView(std::unique_ptr<stored::TensorSource> source);

  std::string title() const override { return title_; }
  Json info() override;
  const std::vector<HeldParameter>& parameters() const override { return parameters_; }
  const mesh::MeshLayout& mesh() const override { return mesh_; }
  bool at_rest() const override { return true; }
  const stored::TensorSource* source() const override { return source_.get(); }
  std::vector<std::string> value_names() const override;
  Json value(std::string_view name) const override;
  at::Tensor read(const HeldParameter& parameter, const mesh::Box& box) override;
  std::span<const HeldParameter> states() const override { return states_; }
  void visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                   const PartVisit& visit) override;
  at::Tensor gather(const at::Tensor& row) override { return row.unsqueeze(0); }
  std::vector<HeldBytes> held_bytes() override;
  std::vector<HeldShard> usable_boxes(const HeldParameter& parameter) override;
  std::vector<std::string> unshard(std::span<const HeldParameter* const> parameters,
                                   const Between& between) override;
  int64_t unshard_bytes(std::span<const HeldParameter* const> parameters) const override;
  std::vector<std::string> reshard(std::span<const HeldParameter* const> parameters) override;
  std::string unshard_note() const override;
  parallel::ParallelModel& runnable(const Between& between) override;
  int64_t runnable_bytes() const override;
  void after_forward() override {}
  void set_compute_dtype(at::ScalarType dtype) override;
  DefaultTokenizer default_tokenizer() const override { return tokenizer_; }
  void export_hf(const std::filesystem::path& folder, std::optional<at::ScalarType> dtype,
                 const Between& between) override;

 private:
  void read_checkpoint_facts();
  bool has_mesh() const;
  const stored::TensorSource& values_source() const;
  HeldParameter held(const stored::StoredTensor& stored) const;

  std::unique_ptr<stored::TensorSource> source_;
  mutable std::unique_ptr<stored::TensorSource> values_;  // of am-run's checkpoints; lazily
  std::optional<Json> checkpoint_info_;                   // what they say of training
  std::optional<model::ModelConfig> config_;
  std::string config_problem_;  // why the model cannot be run; empty: it can
  std::optional<int64_t> step_;
  mesh::MeshLayout mesh_;
  std::map<std::string, std::vector<std::pair<std::string, mesh::Placement>>> placements_;
  std::string note_;  // why no placements are named; empty: they are, or there is no plan
  std::string title_;
  DefaultTokenizer tokenizer_;
  std::vector<HeldParameter> parameters_;
  std::vector<HeldParameter> states_;
  std::map<std::string, at::Tensor> assembled_;

  at::ScalarType compute_dtype_ = at::kFloat;
  std::unique_ptr<runtime::DeviceMesh> single_mesh_;
  std::unique_ptr<parallel::ParallelModel> model_;
};

}  // namespace am::inspect
