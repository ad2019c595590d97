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
  run_folder::CheckpointInfo info;  // contents of checkpoint.json; step 0 without a checkpoint
  bool foreign = false;             // whether another program wrote the checkpoint
  bool insisted = false;            // whether checkpoint.resume is not "auto"
  std::vector<std::string> notes;   // lines for the log

  bool resumes() const { return !folder.empty(); }
};

// Chooses the checkpoint to resume from. Rank 0 cleans up the folder `checkpoints` after killed
// jobs (run_folder::clean_up), chooses a checkpoint by checkpoint.resume, and verifies that the
// checkpoint is complete. If checkpoint.resume is the path of another program's checkpoint
// (foreign_checkpoint.h), completeness is not verified. Then every rank verifies that it sees rank
// 0's checkpoint. All ranks throw the same error: for example, Error(kFormat) if "auto" finds
// checkpoints but no complete checkpoint, or Error(kPlan) if a rank, which the error names, does
// not see rank 0's checkpoint. Collective.
ResumePoint choose_resume_point(const config::Plan& plan, const std::filesystem::path& checkpoints,
                                const runtime::World& world);

// Returns the plan with train.global_batch_size set. Keeps a value that the plan sets; otherwise
// uses the value that the checkpoint stores. Without a stored value, the batch has one micro-batch
// per data-parallel rank or, with a pipeline, the micro-batches of one run of the schedule. Throws
// Error(kPlan) if the stored batch cannot be divided into micro-batches of the data-parallel ranks.
config::Plan with_batch(config::Plan plan, const mesh::MeshSizes& sizes, const ResumePoint& begin);

// Throws Error(kPlan) if a rank's data or model differs from rank 0's. The error names the rank and
// the differences. Collective.
void agree_on_facts(const Json& facts, const runtime::World& world);

// Throws Error(kPlan), which lists the differences, if training would not continue the run that
// wrote the checkpoint. Adds permitted differences to begin.notes. If begin.insisted is true, all
// differences are permitted.
void check_same_run(ResumePoint& begin, const Json& facts, const data::BatchReader& reader);

// Returns the number of sequences at the start of the data that training skips, because earlier
// jobs have read them. `plan` must be a result of with_batch().
int64_t first_sample(const ResumePoint& begin, const config::Plan& plan);

// Returns the jobs that trained the checkpoint, oldest first, each with the step from which it
// resumed. Appends this job, whose id is `job`, unless it already is the last job.
std::vector<run_folder::JobStep> lineage_of(const ResumePoint& begin, const std::string& job);

}  // namespace am::train
