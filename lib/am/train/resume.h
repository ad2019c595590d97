// Start of training: choice of the checkpoint, comparison with the run that wrote it, and position
// in the data. See lib/docs/resuming.md.
//
//   ResumePoint begin = choose_resume_point(plan, checkpoints, world);  // the same on every rank
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

struct ResumePoint {
  std::filesystem::path folder;     // the checkpoint; empty: none
  run_folder::CheckpointInfo info;  // the folder's checkpoint.json; step 0 without a checkpoint
  bool insisted = false;            // the user named the checkpoint
  std::vector<std::string> notes;   // for the log

  bool resumes() const { return !folder.empty(); }
};

// Collective. Rank 0 cleans up the remains of a killed job in `checkpoints`, chooses a checkpoint
// by checkpoint.resume, and checks all its files; every rank verifies that it sees the same
// checkpoint. Throws an equal error on every rank: Error(kFormat) if "auto" finds checkpoints but
// none is complete, Error(kPlan) that names a rank which does not see rank 0's checkpoint.
ResumePoint choose_resume_point(const config::Plan& plan, const std::filesystem::path& checkpoints,
                                const runtime::World& world);

// Returns the plan with train.global_batch_size filled in: its own, otherwise the checkpoint's,
// otherwise one micro-batch, or one round of the pipeline, per data-parallel rank. Throws
// Error(kPlan) if the ranks cannot divide the checkpoint's batch.
config::Plan with_batch(config::Plan plan, const mesh::MeshSizes& sizes, const ResumePoint& begin);

// Collective: throws Error(kPlan) that names a rank whose data or model differs from rank 0's, and
// the differences.
void agree_on_facts(const Json& facts, const runtime::World& world);

// Throws Error(kPlan) that lists the differences if training would not continue the run that wrote
// the checkpoint. Permitted differences, or all of them if the user named the checkpoint, become
// notes.
void check_same_run(ResumePoint& begin, const Json& facts);

// Returns the number of sequences to skip in the data. `plan`: as returned by with_batch().
int64_t first_sample(const ResumePoint& begin, const config::Plan& plan);

// Returns the checkpoint's lineage of jobs, followed by this job.
std::vector<run_folder::JobStep> lineage_of(const ResumePoint& begin, const std::string& job);

}  // namespace am::train
