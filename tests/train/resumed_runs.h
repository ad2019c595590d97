// Runs consecutive jobs in one run folder, so that a job resumes from the checkpoints of earlier
// jobs.
#pragma once

#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/temporary_folder.h"

namespace am::test {

// The plan values of one job in the run folder.
struct Job {
  int64_t ranks = 1;
  std::string model;  // keys of [model]
  std::string more;   // additional sections
  int64_t steps = 6;
  int64_t micro_batch = 2;
  int64_t global_batch = 0;
  std::string seq_len = "16";
  std::string seeds = "0";
  std::string lr = "1e-2";
  std::string betas = "[0.9, 0.999]";
  std::string data = "loop/tokens.bin";
  std::string checkpoint;  // keys of [checkpoint]
  std::string id;          // job id that the launcher would pass; "" for none
};

inline std::string plan_text(const Job& job) {
  return cat("[model]\npath = \"loop/model\"\n", job.model, "[mesh]\nworld_size = ", job.ranks,
             "\n[strategy]\nname = \"ddp\"\n[train]\nseq_len = ", job.seq_len,
             "\nmicro_batch_size = ", job.micro_batch, "\nglobal_batch_size = ", job.global_batch,
             "\nmax_steps = ", job.steps, "\nseed = ", job.seeds, "\n[optimizer]\nlr = ", job.lr,
             "\nbetas = ", job.betas, "\n[data]\nkind = \"tokens\"\npath = \"", job.data,
             "\"\n[checkpoint]\n", job.checkpoint, "\n", job.more);
}

struct Ran {
  train::TrainResult result;
  std::vector<std::string> said;
  std::vector<double> losses;  // one loss per step of this job
  int64_t first_sample = -1;   // index of the first sample of this job's first step
  std::string plan;            // the resolved plan

  std::string all() const { return join(said, "\n"); }
};

class Runs {
 public:
  Runs() { run_folder::RunFolder::create(folder().root()); }

  Ran run(const Job& job) {
    const config::Plan plan = test::parse(plan_text(job));
    Ran ran;
    const launch::StopSignal stop;
    runtime::run_ranks(job.ranks, [&](const runtime::World& world) {
      Diagnostics found;
      const auto config = model::load_config(plan.resolve(plan.model.path), found);
      train::TrainerCallbacks callbacks;
      callbacks.log = [&](const std::string& line) { ran.said.push_back(line); };
      callbacks.step = [&](const observe::StepMetrics& m) { ran.losses.push_back(m.loss); };
      const run_folder::JobIdentity identity =
          job.id.empty() ? run_folder::JobIdentity{} : run_folder::JobIdentity{job.id, {job.id}};
      train::Trainer trainer(job::make_job(plan, *config, world.size()), world, folder(),
                             std::move(callbacks), {}, identity);
      const auto result = trainer.run(stop);
      if (world.rank() != 0) return;
      ran.result = result;
      ran.first_sample = trainer.samples_before(trainer.first_step());
      ran.plan = config::to_toml(trainer.plan());
    });
    return ran;
  }

  // Returns the error with which the job is refused. Throws if the job is not refused.
  Error refusal(const Job& job) {
    try {
      run(job);
    } catch (const Error& error) {
      return error;
    }
    throw std::runtime_error("the job was not refused");
  }

  std::set<std::string> checkpoints() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder().checkpoints())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  run_folder::RunFolder folder() const { return run_folder::RunFolder(temporary_ / "run"); }
  std::filesystem::path step(int64_t number) const { return folder().checkpoint(number); }

 private:
  TemporaryFolder temporary_;
};

inline std::string resume_from(const std::filesystem::path& path) {
  return cat("resume = \"", path.string(), "\"\n");
}

}  // namespace am::test
