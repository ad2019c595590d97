// Candidates of a search: every combination of axes, options and schedule that the rules accept and
// that fits into a GPU's memory by formula.
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

// One candidate: the properties in which candidates differ.
struct Candidate {
  mesh::MeshSizes mesh;
  int strategy = 0;  // index into SearchSpace::strategies_
  int schedule = 0;  // index into the list of tried schedules
  bool sequence_parallel = false;
  bool defers_reduction = false;  // fsdp2's defer_fsdp_grad_sync
  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::kOff;
  int64_t micro_batch = 1;
  int64_t micro_batches = 1;
  double least_seconds = 0;  // lower bound of the simulated step time
  double bytes = 0;          // peak memory by formula
  size_t number = 0;         // index in the result of walk()
};

class SearchSpace {
 public:
  // Both arguments must outlive the object.
  SearchSpace(const SearchRequest& request, const CostConstants& constants);

  // Returns all candidates that fit. Adds to the counts of `result`, which must outlive later
  // calls.
  std::vector<Candidate> walk(SearchResult& result);
  // Moves a candidate of `walk` to the dropped ones, after the exact computation found that it does
  // not fit.
  void drop_misfit(double bytes);

  config::Plan plan_of(const Candidate& candidate) const;
  // The reference is valid until the next call.
  const Workload& workload_of(const Candidate& candidate);
  // Returns a layout of a sample of the layers, with the candidate's tp and ep.
  const layout::Layout& sample_of(const Candidate& candidate) { return cut_of(candidate).sample; }

 private:
  // Sharding of each kind of layer by a strategy on a mesh with given tp and ep, and the id of the
  // first rule that rejects it.
  struct Cut {
    layout::Layout sample;
    LocalCuts cuts;
    std::string refused_by;
  };

  void walk_meshes(int strategy);
  void walk_data_parallel(Candidate candidate);
  // Expert-parallel sizes to try: divisors of the number of experts that divide the stage's ranks.
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
  // Returns the id of the first rule that rejects the scratch plan, or an empty string.
  std::string refusal(const mesh::MeshSizes& mesh, const layout::Layout* layout,
                      rules::Needs needs) const;
  const Cut& cut_of(const Candidate& candidate);
  void set_stages(const Candidate& candidate);

  const SearchRequest& request_;
  const CostConstants& constants_;
  std::vector<config::DistributedConfig> strategies_;
  config::Plan base_;
  config::Plan scratch_;  // plan of the candidate that is being evaluated
  int64_t batch_ = 0;
  Workload workload_;
  // Key: strategy, tp, ep, sequence parallelism.
  std::map<std::tuple<int, int64_t, int64_t, bool>, Cut> cuts_;
  std::vector<Candidate> candidates_;
  SearchResult* result_ = nullptr;
};

}  // namespace am::predict
