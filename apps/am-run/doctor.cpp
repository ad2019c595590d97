// am-run doctor PLAN: checks this machine and the inputs of a job. The checks run in am-run-rank,
// which can open all inputs. Without am-run-rank, am-run checks only what needs no libtorch.
#include "job/doctor.h"

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/config/batch.h"
#include "am/data/from_plan.h"
#include "common/output.h"
#include "job.h"
#include "starter/torch_programs.h"

namespace am_run {

namespace {

using namespace am;

constexpr const char* kProgram = "am-run-rank";

std::vector<launch::Check> examine_data(const config::Plan& plan, const rules::CheckedPlan& checked,
                                        const std::filesystem::path& /*checkpoints*/) {
  std::vector<launch::Check> checks;
  if (!plan.metrics.loggers.empty()) checks.push_back(check_loggers(plan.metrics.loggers));
  checks.push_back(check_opens("data", [&] {
    config::Plan full = plan;
    full.train.global_batch_size = config::batch_shape(plan, checked.mesh->dp()).sequences;
    return join(data::open_batches(full, checked.model->vocab_size).descriptions(), "; ");
  }));
  for (const char* name : {"checkpoint", "weights"}) {
    checks.push_back(
        {name, launch::CheckStatus::kSkipped, cat(kProgram, ", which opens it, is missing"), {}});
  }
  return checks;
}

// Returns the reason why this machine cannot start ranks.
Diagnostic missing_program() {
  Diagnostic problem;
  try {
    am_apps::torch_program(kProgram);
  } catch (const Error& error) {
    problem.message = error.what();
    problem.help = error.hint();
  }
  return problem;
}

}  // namespace

int run_doctor(int argc, char** argv) {
  int status = 0;
  const auto options = parse_doctor_options(argc, argv, status);
  if (!options) return status;
  return am_apps::guarded("am-run doctor", options->output, [&]() -> int {
    if (am_apps::has_torch_program(kProgram)) {
      am_apps::become_torch_program(kProgram, argv - 1);  // am-run's own arguments
    }
    return examine_machine(*options, {.version = {}, .problem = missing_program()}, examine_data);
  });
}

}  // namespace am_run
