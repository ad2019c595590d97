// Where training begins: which checkpoint is trusted, what of it must be the same, and where the
// data stands. See lib/docs/resuming.md.
//
//   Beginning begin = choose_beginning(plan, checkpoints, world);       // the same on every rank
//   plan = with_batch(plan, mesh, begin);
//   const Json facts = run_facts(plan, config, source);
//   agree_on_facts(facts, world);
//   check_same_run(begin, facts);
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/run_folder/checkpoint_info.h"
#include "am/runtime/world.h"

namespace am::train {

struct Beginning {
  std::filesystem::path folder;     // the checkpoint; empty: none
  run_folder::CheckpointInfo info;  // what it says of itself; step 0 without one
  bool insisted = false;            // the user has named it
  std::vector<std::string> notes;   // for the log

  bool resumes() const { return !folder.empty(); }
};

// Collective: rank 0 chooses by checkpoint.resume, after it has cleaned up what a killed job left
// in `checkpoints`; every rank makes sure that it sees the same checkpoint. Throws the same on
// every rank: Error(kFormat) when "auto" finds checkpoints and none is whole, Error(kPlan) that
// names the rank which does not see rank 0's.
Beginning choose_beginning(const config::Plan& plan, const std::filesystem::path& checkpoints,
                           const runtime::World& world);

// The plan with train.global_batch_size filled in: its own, else the checkpoint's, else one
// micro-batch of each data-parallel rank. Throws Error(kPlan) when these ranks cannot share the
// checkpoint's.
config::Plan with_batch(config::Plan plan, const mesh::MeshSizes& sizes, const Beginning& begin);

// Collective: throws Error(kPlan) that names the rank whose data or model is not rank 0's, and in
// what it differs.
void agree_on_facts(const Json& facts, const runtime::World& world);

// Throws Error(kPlan) that lists what differs, when training would not go on as the run that wrote
// the checkpoint. What may differ, and all where the user insists, becomes notes.
void check_same_run(Beginning& begin, const Json& facts);

// How many sequences come before the first one. `plan`: its batch is filled in.
int64_t first_sample(const Beginning& begin, const config::Plan& plan);

// The checkpoint's jobs and this one.
std::vector<run_folder::JobStep> lineage_of(const Beginning& begin, const std::string& job);

}  // namespace am::train
