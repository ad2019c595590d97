// Candidates of a search: combinations of axes, options and schedule that the rules accept and that
// fit into a GPU's memory by formula.
//
//   SearchSpace space(request, constants);
//   space.walk(result)[0].least_seconds;
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "am/predict/memory/layout_summary.h"
#include "am/predict/search/search.h"
#include "am/predict/time/workload.h"
#include "am/rules/check.h"

namespace am::predict {

// One candidate layout of a search: a value for each property in which candidates differ.
struct Candidate {
  mesh::MeshSizes mesh;
  int strategy = 0;  // index into SearchSpace::strategies_
  int schedule = 0;  // index into SearchSpace::schedules_
  bool sequence_parallel = false;
  bool defers_reduction = false;  // fsdp2's defer_fsdp_grad_sync
  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::kOff;
  int64_t micro_batch = 1;
  int64_t micro_batches = 1;
  double least_seconds = 0;  // lower bound of the simulated step time
  double bytes = 0;          // peak memory by formula
  size_t number = 0;         // index of the candidate in the result of walk()
};

class SearchSpace {
 public:
  // Both arguments must outlive the object.
  SearchSpace(const SearchRequest& request, const CostConstants& constants);

  // Returns all candidates that fit by formula. Adds the numbers of considered, fitting and dropped
  // candidates to `result`. drop_misfit() changes `result` later, so `result` must outlive its
  // calls.
  std::vector<Candidate> walk(SearchResult& result);
  // Counts one candidate of walk() as dropped instead of feasible, because its simulated peak of
  // `bytes` bytes does not fit.
  void drop_misfit(double bytes);

  config::Plan plan_of(const Candidate& candidate) const;
  // Whether keys of request.base may make layers of one kind differ, for example adapters or globs
  // over parameter names. A sample with one layer of each kind cannot represent these layers.
  bool needs_whole_layouts() const { return whole_layouts_; }
  // Returns the candidate's workload. The next call of workload_of() overwrites it.
  const Workload& workload_of(const Candidate& candidate);
  // Returns a layout with one layer of each kind, or with all layers if needs_whole_layouts() is
  // true, sharded by the candidate's tp and ep.
  const layout::Layout& sample_of(const Candidate& candidate) { return cut_of(candidate).sample; }

 private:
  // Layout of the layers under one strategy, on a mesh with given tp and ep.
  struct Cut {
    layout::Layout sample;   // result of sample_of()
    LocalCuts cuts;          // numbers of elements per rank in `sample`
    std::string refused_by;  // id of the first rule that rejects `sample`; empty if none does
  };

  void walk_meshes(int strategy);
  void walk_data_parallel(Candidate candidate);
  // Returns the sizes of ep to try: those of request_.ep_sizes that divide both the number of
  // experts and the number of ranks of a pipeline stage. Without experts, only ep = 1 is tried.
  std::vector<int64_t> expert_sizes(const mesh::MeshSizes& mesh) const;
  void walk_options(Candidate candidate);
  void walk_schedules(Candidate candidate);
  void walk_checkpointing(Candidate candidate);
  const char* consider(Candidate candidate, const char* misfit);
  void refuse(std::string_view rule);
  void note_misfit(double bytes);
  void drop(std::string_view reason);

  void set_mesh(const Candidate& candidate, config::Plan& plan) const;
  void set_options(const Candidate& candidate, config::Plan& plan) const;
  // Returns the id of the first rule that rejects scratch_, or an empty string. Checks only the
  // rules whose Rule::needs is `needs`. `layout` may be null if `needs` is kMesh.
  std::string refusal(const mesh::MeshSizes& mesh, const layout::Layout* layout,
                      rules::Needs needs) const;
  const Cut& cut_of(const Candidate& candidate);
  std::vector<int64_t> micro_batches() const;
  // Returns the checkpointing modes to try, in order of increasing memory.
  std::vector<config::ActivationCheckpointing> checkpointing_modes() const;
  const std::vector<std::string>& modules_of(const Candidate& candidate) const;
  void set_stages(const Candidate& candidate);
  // Sets choices_ and whole_layouts_ from layouts of request_.base on one rank.
  void set_choices();

  struct ScheduleChoice {
    std::string name;
    int64_t virtual_stages;
  };

  const SearchRequest& request_;
  const CostConstants& constants_;
  const cluster::Gpu gpu_;  // request_.gpu, with its memory reduced by request_.headroom
  std::vector<config::DistributedConfig> strategies_;
  std::vector<ScheduleChoice> schedules_;  // pipeline schedules to try
  config::Plan base_;
  config::Plan scratch_;  // base_ with the properties of the candidate that is being evaluated
  int64_t batch_ = 0;
  Workload workload_;
  // For each strategy, the members of LayoutSummary and Workload that depend on keys of
  // SearchRequest::base (LoRA, frozen or ignored parameters, the optimizer), and not on the mesh.
  // Without SearchRequest::base, choices_ is empty and these members keep their defaults.
  struct Choices {
    double trained, ignored, quantized, backward_layers, states;
  };
  std::vector<Choices> choices_;
  bool whole_layouts_ = false;  // see needs_whole_layouts()
  // Cached results of cut_of(). Key: index of the strategy, tp, ep, sequence parallelism, and
  // whether a rank has several pipeline stages.
  std::map<std::tuple<int, int64_t, int64_t, bool, bool>, Cut> cuts_;
  std::vector<Candidate> candidates_;
  SearchResult* result_ = nullptr;
};

}  // namespace am::predict
