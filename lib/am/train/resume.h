// Decides how training starts: chooses a checkpoint, compares the job with the run that wrote the
// checkpoint, and finds the position in the data. See lib/docs/resuming.md.
//
//   ResumePoint begin = choose_resume_point(plan, checkpoints, world);  // the same on every rank
//   plan = with_batch(plan, mesh, begin);
//   const Json facts = run_facts(plan, config, reader);
//   agree_on_facts(facts, world);
//   check_same_run(begin, facts, reader);
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/data/batch.h"
#include "am/mesh/layout.h"
#include "am/run_folder/checkpoint_info.h"
#include "am/runtime/world.h"

namespace am::train {

struct ResumePoint {
  std::filesystem::path folder;     // the checkpoint to resume from; empty: train from step 0
  run_folder::CheckpointInfo info;  // contents of its checkpoint.json; step 0 without a checkpoint
  bool foreign = false;             // whether another program wrote it (foreign_checkpoint.h)
  bool insisted = false;            // whether checkpoint.resume names the checkpoint, not "auto"
  std::vector<std::string> notes;   // lines for the log

  bool resumes() const { return !folder.empty(); }
};

// Chooses the checkpoint to resume from. Rank 0 deletes the incomplete folders of killed jobs in
// `checkpoints`, chooses a checkpoint by checkpoint.resume, and checks that it is complete. A path
// may name a checkpoint of another program (foreign_checkpoint.h), whose files are not checked.
// Every rank verifies that it sees the same checkpoint. Throws an equal error on every rank, for
// example Error(kFormat) if "auto" finds checkpoints but none is complete, and Error(kPlan), which
// names the rank, if a rank does not see rank 0's checkpoint. Collective.
ResumePoint choose_resume_point(const config::Plan& plan, const std::filesystem::path& checkpoints,
                                const runtime::World& world);

// Returns the plan with train.global_batch_size set. If the plan does not set it, the value is the
// checkpoint's; without a checkpoint that stores it, one micro-batch per data-parallel rank, or
// with a pipeline the micro-batches of one run of its schedule. Throws Error(kPlan) if the ranks
// cannot divide the checkpoint's batch.
config::Plan with_batch(config::Plan plan, const mesh::MeshSizes& sizes, const ResumePoint& begin);

// Throws Error(kPlan) if a rank's data or model differs from rank 0's. The error names the rank and
// the differences. Collective.
void agree_on_facts(const Json& facts, const runtime::World& world);

// Throws Error(kPlan), which lists the differences, if training would not continue the run that
// wrote the checkpoint. Differences that are permitted become notes; if the user named the
// checkpoint, all differences are permitted.
void check_same_run(ResumePoint& begin, const Json& facts, const data::BatchReader& reader);

// Returns the number of sequences to skip in the data. `plan` must be a result of with_batch().
int64_t first_sample(const ResumePoint& begin, const config::Plan& plan);

// Returns the jobs that trained the checkpoint, with their first steps, followed by this job.
std::vector<run_folder::JobStep> lineage_of(const ResumePoint& begin, const std::string& job);

}  // namespace am::train
