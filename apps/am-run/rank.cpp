// One rank: joins the job, trains, and leaves word of its own error.
#include <chrono>
#include <iostream>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/launch/rank_error.h"
#include "am/launch/run_folder.h"
#include "am/launch/stop_signal.h"
#include "am/observe/step_line.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/torch_error.h"
#include "am/runtime/world.h"
#include "am/train/trainer.h"
#include "job.h"
#include "plan_file.h"

namespace am_run {

namespace {

using namespace am;

void announce(const JobPlan& job) {
  const auto& mesh = job.mesh;
  std::string axes;
  for (const mesh::Axis axis : mesh::kAxes) {
    if (mesh.size(axis) > 1)
      axes += cat(axes.empty() ? "" : " x ", to_string(axis), " ", mesh.size(axis));
  }
  const int64_t parameters = model::build_inventory(job.model).total();
  std::cerr << "model       " << job.model.model_type << ", "
            << format_short_count(static_cast<double>(parameters)) << " parameters, "
            << job.model.num_hidden_layers << " layers\n"
            << "mesh        " << mesh.world_size() << (mesh.world_size() == 1 ? " rank" : " ranks")
            << (axes.empty() ? "" : " = ") << axes << ", "
            << config::strategy_name(job.plan.strategy) << ", " << parallel::backend_of(job.plan)
            << "\n";
}

int train(const Options& options, const launch::RankEnvironment& here) {
  Diagnostics found;
  const auto job = load_job_plan(options, here.world_size, found);
  if (!job) {
    if (here.rank == 0) am_apps::print_diagnostics(found, options.output);
    throw Error(ErrorKind::kPlan, "the plan is not valid");
  }
  const bool first = here.rank == 0;
  const launch::RunFolder run(run_folder(options));
  if (first) {
    launch::RunFolder::create(run.root());
    write_file_atomically(run.plan_file(), config::to_toml(job->plan));
    announce(*job);
  }
  const launch::StopSignal stop;
  const auto world =
      runtime::World::connect(here, {.timeout = std::chrono::seconds(options.timeout_seconds),
                                     .backend = parallel::backend_of(job->plan),
                                     .dump_folder = run.logs()});
  observe::StepLine line(job->plan.train.max_steps);
  const int64_t every = std::max<int64_t>(1, job->plan.metrics.every);
  train::TrainerCallbacks callbacks;
  callbacks.log = [](const std::string& text) { std::cerr << text << std::endl; };
  callbacks.step = [&](const observe::StepMetrics& metrics) {
    const std::string text = line.format(metrics);
    const bool last = metrics.step == job->plan.train.max_steps;
    if (metrics.step % every == 0 || metrics.step == 1 || last) std::cerr << text << std::endl;
  };
  train::Trainer trainer(job->plan, job->model, world, run, std::move(callbacks));
  const train::TrainResult result = trainer.run(stop);
  if (first && result.stopped) std::cerr << "stopped at step " << result.steps << " as asked\n";
  return 0;
}

int report(const Error& error, const launch::RankEnvironment& here) {
  launch::report_error(launch::process_environment(), launch::rank_error(error, here.rank));
  // Under our own launcher the launcher prints it; under another one this line is all there is.
  if (!launch::process_environment()(launch::kErrorFileVariable)) {
    std::cerr << "am-run: rank " << here.rank << ": " << error.what() << "\n";
    if (!error.hint().empty()) std::cerr << "help: " << error.hint() << "\n";
  }
  return error.exit_status();
}

}  // namespace

int run_rank(const Options& options, const launch::RankEnvironment& here) {
  try {
    return train(options, here);
  } catch (const Error& error) {
    return report(error, here);
  } catch (const std::exception& error) {
    return report(Error(ErrorKind::kRuntime, runtime::first_line(error)), here);
  }
}

}  // namespace am_run
