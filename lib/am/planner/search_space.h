// The layouts that a search looks at: every combination of axes, options and schedule that the
// rules accept and that fits into a GPU's memory by formula.
//
//   SearchSpace space(request, constants);
//   space.walk(result)[0].least_seconds;
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "am/planner/cost/workload.h"
#include "am/planner/layout_sketch.h"
#include "am/planner/rules.h"
#include "am/planner/search.h"

namespace am::planner {

// One point: what is not the same for all of them.
struct Candidate {
  mesh::MeshSizes mesh;
  int strategy = 0;  // index into SearchSpace's
  int schedule = 0;  // index into the schedules that are tried
  bool sequence_parallel = false;
  bool defers_reduction = false;  // fsdp2's key
  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::kOff;
  int64_t micro_batch = 1;
  int64_t micro_batches = 1;
  double least_seconds = 0;  // no simulation of its schedule is faster
  double bytes = 0;          // the peak by formula
  size_t number = 0;         // its place in what walk() returns
};

class SearchSpace {
 public:
  // Both must outlive this.
  SearchSpace(const SearchRequest& request, const CostConstants& constants);

  // Fills the counts of `result`.
  std::vector<Candidate> walk(SearchResult& result);
  // Counts a candidate of `walk` that does not fit after all.
  void drop_misfit(double bytes);

  config::Plan plan_of(const Candidate& candidate) const;
  // Until the next call.
  const Workload& workload_of(const Candidate& candidate);
  // A layout of a sample of the layers, with the candidate's tp and ep.
  const Layout& sample_of(const Candidate& candidate) { return cut_of(candidate).sample; }

 private:
  // How a strategy on a mesh with these tp and ep cuts each kind of layer, and the first rule that
  // refuses it.
  struct Cut {
    Layout sample;
    LocalCuts cuts;
    std::string refused_by;
  };

  void walk_meshes(int strategy);
  void walk_data_parallel(Candidate candidate);
  // Whether am-run runs the scratch plan on this mesh.
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
  // The id of the first rule that refuses the plan that is being sized up; empty: none does.
  std::string refusal(const mesh::MeshSizes& mesh, const Layout* layout, Needs needs) const;
  const Cut& cut_of(const Candidate& candidate);
  void set_stages(const Candidate& candidate);

  const SearchRequest& request_;
  const CostConstants& constants_;
  std::vector<config::DistributedConfig> strategies_;
  config::Plan base_;
  config::Plan scratch_;  // of the candidate that is being sized up
  int64_t batch_ = 0;
  Workload workload_;
  std::map<std::tuple<int, int64_t, int64_t, bool>, Cut> cuts_;  // strategy, tp, ep, sequence
  std::vector<Candidate> candidates_;
  SearchResult* result_ = nullptr;
};

}  // namespace am::planner
