#include "doctor_inputs.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/data/batch.h"
#include "am/data/from_plan.h"
#include "am/frameworks/open_weights.h"
#include "am/run_folder/data_files.h"
#include "am/run_folder/step_folders.h"
#include "am/stored/fit.h"
#include "am/stored/hub_names.h"
#include "am/train/foreign_checkpoint.h"
#include "am/train/resume.h"
#include "am/train/run_facts.h"
#include "job/doctor.h"

namespace am_run {

using namespace am;

namespace {

train::ResumePoint resume_point_of(const config::Plan& plan,
                                   const std::filesystem::path& checkpoints) {
  train::ResumePoint begin;
  const std::string& wanted = plan.checkpoint.resume;
  if (wanted == "auto") {
    const auto newest = run_folder::newest_complete(checkpoints);
    if (newest.found) begin.folder = newest.found->path;
    if (!newest.found && !newest.skipped.empty()) {
      throw Error(ErrorKind::kFormat, cat("no checkpoint is complete: ", newest.skipped.front()),
                  "--resume none starts a new run");
    }
  } else if (wanted != "none") {
    begin.folder = plan.resolve(wanted);
    begin.insisted = true;
  }
  if (!begin.resumes()) return begin;
  begin.foreign = !run_folder::is_checkpoint(begin.folder);
  begin.info = begin.foreign ? train::describe_foreign(begin.folder)
                             : run_folder::read_checkpoint_info(begin.folder);
  if (begin.insisted && !begin.foreign) run_folder::require_complete(begin.folder, begin.info);
  return begin;
}

}  // namespace

std::vector<launch::Check> examine_inputs(const config::Plan& plan,
                                          const rules::CheckedPlan& checked,
                                          const std::filesystem::path& checkpoints) {
  std::vector<launch::Check> checks;
  if (!plan.metrics.loggers.empty()) checks.push_back(check_loggers(plan.metrics.loggers));
  train::ResumePoint begin;
  std::unique_ptr<data::BatchReader> reader;
  checks.push_back(check_opens("checkpoint", [&]() -> std::string {
    begin = resume_point_of(plan, checkpoints);
    return begin.resumes() ? cat(begin.folder.string(), ", step ", begin.info.step)
                           : "none: training starts at step 1";
  }));
  checks.push_back(check_opens("data", [&] {
    const config::Plan full = train::with_batch(plan, *checked.mesh, begin);
    reader =
        std::make_unique<data::BatchReader>(data::open_batches(full, checked.model->vocab_size));
    return join(reader->descriptions(), "; ");
  }));
  if (begin.resumes()) {  // a resumed job reads its checkpoint and no files of weights
    if (reader == nullptr) return checks;
    checks.push_back(check_opens("the same run", [&] {
      const config::Plan full = train::with_batch(plan, *checked.mesh, begin);
      train::check_same_run(begin, train::run_facts(full, *checked.model, *reader), *reader);
      return cat("continues from step ", begin.info.step);
    }));
    return checks;
  }
  checks.push_back(check_opens("weights", [&]() -> std::string {
    const auto path = checkpoint::weights_path(plan);
    if (!path) return cat("initialised with seed ", plan.model.seed);
    const auto source = frameworks::open_tensor_source(*path);
    const stored::HubNames named(*source, checked.layout->inventory);
    stored::check_fit(*checked.layout, *checked.model, named);
    return path->string();
  }));
  return checks;
}

}  // namespace am_run
