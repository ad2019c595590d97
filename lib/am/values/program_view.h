// View of the tensors of a training program of another framework, from one of the program's ranks.
//
// Commands read the program's own memory. automesh has no code for the model, so commands that run
// the model (`loss`, `generate`, `grad --of TEXT`) throw Error(kUsage).
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "am/mesh/layout.h"
#include "am/values/parameter_view.h"
#include "am/values/program_tensors.h"

namespace am::values {

struct ProgramFacts {
  std::string run;                     // path of the run folder
  std::string model;                   // name of the model for titles, for example "llama"
  std::string config;                  // text of the model's config.json; empty: unknown
  std::filesystem::path model_folder;  // folder with the model's tokenizer; empty: unknown
  mesh::MeshSizes mesh;
  std::function<int64_t()> steps;  // returns the number of finished steps
};

class ProgramView : public RankView {
 public:
  // `tensors` must outlive the view.
  ProgramView(const ProgramTensors& tensors, ProgramFacts facts);

  std::string title() const override;
  Json info() override;
  const std::vector<HeldParameter>& parameters() const override { return tensors_.parameters(); }
  std::span<const HeldParameter> states() const override { return tensors_.states(); }
  const mesh::MeshLayout& mesh() const override { return mesh_; }
  int64_t rank() const override { return tensors_.world().rank(); }
  at::Tensor read(const HeldParameter& parameter, const mesh::Box& box) override;
  void visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                   const PartVisit& visit) override;
  std::vector<HeldBytes> held_bytes() override;
  std::vector<HeldShard> usable_boxes(const HeldParameter& parameter) override;
  std::vector<std::string> unshard(std::span<const HeldParameter* const> parameters,
                                   const Between& between) override;
  int64_t unshard_bytes(std::span<const HeldParameter* const> parameters) const override;
  std::vector<std::string> reshard(std::span<const HeldParameter* const> parameters) override;
  // Also frees full copies of tensors that the program no longer has.
  void reshard_all() override { whole_.clear(); }
  std::string unshard_note() const override;
  parallel::ParallelModel& runnable(const Between& between) override;
  void after_forward() override {}
  void after_backward(const std::string& /*of*/) override {}
  std::string gradients_of() const override;
  int64_t gradient_bytes() const override { return 0; }
  void set_compute_dtype(at::ScalarType dtype) override;
  DefaultTokenizer default_tokenizer() const override;
  void export_hf(const std::filesystem::path& folder, const HubExport& options,
                 const Between& between) override;

 private:
  const runtime::Group& group() const override { return tensors_.world().group(); }

  const ProgramTensors& tensors_;
  ProgramFacts facts_;
  mesh::MeshLayout mesh_;
  // Full tensors that the user unsharded, in host memory.
  std::map<std::string, at::Tensor, std::less<>> whole_;
};

}  // namespace am::values
