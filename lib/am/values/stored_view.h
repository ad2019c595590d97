// View of the files of a checkpoint, in a session of one process. The files are memory-mapped and
// read on demand.
//
// The command `unshard` assembles full tensors in memory, and `reshard` frees them. Commands that
// run the model, for example loss and generate, load the weights once into a model on one rank, by
// default in float32 (`set dtype` selects another dtype).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "am/inspect/stored_catalog.h"
#include "am/runtime/device_mesh.h"
#include "am/stored/tensor_source.h"
#include "am/values/parameter_view.h"

namespace am::values {

class StoredView : public ParameterView {
 public:
  // Throws the errors of the constructor of StoredCatalog.
  explicit StoredView(std::unique_ptr<stored::TensorSource> source) : catalog_(std::move(source)) {}

  std::string title() const override { return catalog_.title(); }
  Json info() override { return catalog_.info(); }
  std::string note() const override { return catalog_.note(); }
  const std::vector<HeldParameter>& parameters() const override { return catalog_.parameters(); }
  const mesh::MeshLayout& mesh() const override { return catalog_.mesh(); }
  bool at_rest() const override { return true; }
  const stored::TensorSource* source() const override { return catalog_.source(); }
  std::vector<std::string> value_names() const override { return catalog_.value_names(); }
  Json value(std::string_view name) const override { return catalog_.value(name); }
  DefaultTokenizer default_tokenizer() const override { return catalog_.default_tokenizer(); }

  at::Tensor read(const HeldParameter& parameter, const mesh::Box& box) override;
  void visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                   const PartVisit& visit) override;
  void visit_parts_at_once(const HeldParameter& parameter, const mesh::Box& box,
                           const NumberedVisit& visit) override;
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
  void after_backward(const std::string& of) override;
  std::string gradients_of() const override { return gradients_of_; }
  int64_t gradient_bytes() const override { return gradients_.empty() ? model_bytes() : 0; }
  std::span<const HeldParameter> states() const override;
  void set_compute_dtype(at::ScalarType dtype) override;
  void export_hf(const std::filesystem::path& folder, const HubExport& options,
                 const Between& between) override;

 private:
  const at::Tensor* assembled(const HeldParameter& parameter);
  // Calls `visit` with a block of the parameter and returns the result of `visit`. The block is a
  // view of the full tensor in memory or of the mapped file if possible, otherwise a copy. Releases
  // pages of the files from time to time, because they would otherwise fill the memory.
  bool visit_block(const HeldParameter& parameter, const mesh::Box& block, const PartVisit& visit);
  int64_t model_bytes() const;
  void drop_model();

  inspect::StoredCatalog catalog_;
  std::map<std::string, at::Tensor> assembled_;
  std::unique_ptr<runtime::DeviceMesh> single_mesh_;
  std::unique_ptr<parallel::ParallelModel> model_;
  // Description of the origin of the gradients of model_; empty without gradients.
  std::string gradients_of_;
  std::map<std::string, at::Tensor> gradients_;  // full gradients, keyed "grad.NAME"
  std::vector<HeldParameter> states_;  // gradients, then stored states; empty without gradients
};

}  // namespace am::values
