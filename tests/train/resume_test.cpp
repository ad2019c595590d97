// Which checkpoint a run goes on from, what must be the same, and where the data stands.
#include "am/train/resume.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"

namespace am {
namespace {

namespace fs = std::filesystem;

// A job in a run folder; keys that are set later count.
struct Job {
  int64_t ranks = 1;
  std::string model;  // keys of the section
  std::string more;   // further sections
  int64_t steps = 6;
  int64_t micro_batch = 2;
  int64_t global_batch = 0;
  std::string seq_len = "16";
  std::string seeds = "0";
  std::string lr = "1e-2";
  std::string betas = "[0.9, 0.999]";
  std::string data = "loop/tokens.bin";
  std::string checkpoint;  // keys of the section
  std::string id;          // as its launcher would call it
};

std::string plan_text(const Job& job) {
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
  std::vector<double> losses;  // by step of this job
  int64_t first_sample = -1;   // of its first step
  std::string plan;            // resolved

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
      train::Trainer trainer(planner::make_job(plan, *config, world.size()), world, folder(),
                             std::move(callbacks), {}, identity);
      const auto result = trainer.run(stop);
      if (world.rank() != 0) return;
      ran.result = result;
      ran.first_sample = trainer.samples_before(trainer.first_step());
      ran.plan = config::to_toml(trainer.plan());
    });
    return ran;
  }

  // Of a job that is refused.
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
    for (const auto& entry : fs::directory_iterator(folder().checkpoints())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  run_folder::RunFolder folder() const { return run_folder::RunFolder(temporary_ / "run"); }
  fs::path step(int64_t number) const { return folder().checkpoint(number); }

 private:
  TemporaryFolder temporary_;
};

std::string resume_from(const fs::path& path) { return cat("resume = \"", path.string(), "\"\n"); }

}  // namespace

TEST_CASE("auto refuses a checkpoint of another run and lists what differs") {
  Runs runs;
  Job job;
  job.steps = 2;
  runs.run(job);
  Job other = job;
  other.steps = 4;
  SECTION("seed") { other.seeds = "7"; }
  SECTION("length of a sequence") { other.seq_len = "8"; }
  SECTION("batch") { other.global_batch = 4; }
  SECTION("the optimizer's betas") { other.betas = "[0.9, 0.95]"; }
  SECTION("the model's seed") { other.model = "seed = 3\n"; }
  SECTION("freezing") { other.model = "freeze_params = [\"*embed*\"]\n"; }
  const Error error = runs.refusal(other);
  CHECK(error.kind() == ErrorKind::kPlan);
  CHECK_THAT(error.what(), Catch::Contains("step-2: the checkpoint is of another run:\n"));
  CHECK_THAT(error.what(), Catch::Contains(" there, "));
  CHECK_THAT(error.hint(), Catch::Contains("--resume " + runs.step(2).string()));
  CHECK(runs.checkpoints() == std::set<std::string>{"step-2"});
}

TEST_CASE("all differences are listed at once, and a path insists") {
  Runs runs;
  Job job;
  job.steps = 2;
  runs.run(job);
  Job other = job;
  other.steps = 3;
  other.seeds = "7";
  other.betas = "[0.9, 0.95]";
  other.lr = "1e-4";
  const std::string refused = runs.refusal(other).what();
  CHECK_THAT(refused, Catch::Contains("train.seed: 0 there, 7 here") &&
                          Catch::Contains("optimizer.betas: [0.9,0.999] there, [0.9,0.95] here"));
  CHECK_THAT(refused, !Catch::Contains("optimizer.lr"));
  other.checkpoint = resume_from(runs.step(2));
  const Ran insisted = runs.run(other);
  CHECK(insisted.losses.size() == 1);
  CHECK_THAT(insisted.all(), Catch::Contains("note        train.seed: 0 there, 7 here") &&
                                 Catch::Contains("optimizer.lr: 0.01 there, 0.0001 here"));
}

TEST_CASE("what may change on the way is noted, or not worth a word") {
  Runs runs;
  Job job;
  job.steps = 2;
  job.global_batch = 4;
  runs.run(job);
  Job other = job;
  other.steps = 3;
  other.ranks = 2;
  other.micro_batch = 1;
  other.lr = "1e-4";
  other.more = "[scheduler]\nname = \"linear\"\n[metrics]\nevery = 2\n";
  const Ran ran = runs.run(other);
  CHECK(ran.losses.size() == 1);
  CHECK_THAT(ran.all(), Catch::Contains("note        optimizer.lr: 0.01 there, 0.0001 here") &&
                            Catch::Contains("scheduler.name") &&
                            Catch::Contains("scheduler.decay_steps: 0 there, 3 here") &&
                            !Catch::Contains("metrics"));
}

TEST_CASE("another model's checkpoint is refused where its tensors would fit") {
  Runs runs;
  Job job;
  job.steps = 1;
  runs.run(job);
  fs::copy(test::data_path("loop/model"), runs.folder().root() / "model");
  const fs::path config = runs.folder().root() / "model/config.json";
  std::string text = read_file(config);
  const size_t eps = text.find("\"rms_norm_eps\": ") + 16;
  text.replace(eps, text.find_first_of(",\n", eps) - eps, "0.25");
  write_file_atomically(config, text);
  config::Plan plan = test::parse(plan_text(job));
  plan.model.path = (runs.folder().root() / "model").string();
  Diagnostics found;
  const auto other = model::load_config(plan.model.path, found);
  REQUIRE(other);
  const auto build = [&] {
    train::Trainer(planner::make_job(plan, *other, 1), runtime::World::single(), runs.folder(), {});
  };
  CHECK_THROWS_WITH(
      build(), Catch::Contains("config.rms_norm_eps: ") && Catch::Contains(" there, 0.25 here"));
  plan.checkpoint.resume = runs.step(1).string();
  CHECK_NOTHROW(build());
}

TEST_CASE("other data is refused, the same data under another name is not") {
  Runs runs;
  Job job;
  job.steps = 1;
  runs.run(job);
  const fs::path copy = runs.folder().root() / "moved.bin";
  fs::copy_file(test::data_path("loop/tokens.bin"), copy);
  job.data = copy.string();
  job.steps = 2;
  CHECK_THAT(runs.run(job).all(), Catch::Contains("data.path: [\"tokens.bin\"] there"));
  std::fstream(copy, std::ios::in | std::ios::out | std::ios::binary).write("\1\0\1\0", 4);
  job.steps = 3;
  CHECK_THAT(runs.refusal(job).what(), Catch::Contains("data.fingerprint: "));
  fs::resize_file(copy, fs::file_size(copy) - 64);
  CHECK_THAT(runs.refusal(job).what(), Catch::Contains("data.tokens: "));
}

TEST_CASE("data goes on where it stood on another number of ranks") {
  Runs straight;
  Job job;
  job.steps = 12;
  const Ran whole = straight.run(job);
  CHECK_THAT(whole.all(), Catch::Contains("batch       2 sequences a step, one micro-batch of "));
  Runs broken;
  job.steps = 6;
  CHECK(broken.run(job).first_sample == 0);
  CHECK_THAT(read_file(broken.step(6) / "plan.toml"), Catch::Contains("global_batch_size = 2\n"));
  CHECK(run_folder::read_checkpoint_info(broken.step(6)).samples == 12);
  Job rest = job;
  rest.steps = 12;
  rest.ranks = 2;
  SECTION("whose share of the batch is a whole number of micro-batches") {
    rest.micro_batch = 1;
    const Ran second = broken.run(rest);
    CHECK(second.first_sample == 12);
    CHECK_THAT(second.plan, Catch::Contains("global_batch_size = 2\n"));
    CHECK_THAT(second.all(), Catch::Contains("batch       2 sequences a step, as in the checkp"));
    REQUIRE(second.losses.size() == 6);
    for (size_t i = 0; i < 6; ++i) {
      CHECK(second.losses[i] == Approx(whole.losses[6 + i]).epsilon(1e-6));
    }
  }
  SECTION("whose share is not: the batch does not change by itself") {
    const Error error = broken.refusal(rest);
    CHECK_THAT(error.what(), Catch::Contains("trained with 2 sequences a step, which 2 data-"));
    CHECK_THAT(error.hint(), Catch::Contains("train.micro_batch_size"));
  }
  SECTION("with another batch, as the user insists") {
    rest.global_batch = 4;
    CHECK_THAT(broken.refusal(rest).what(), Catch::Contains("train.global_batch_size: 2 there"));
    rest.checkpoint = resume_from(broken.step(6));
    rest.steps = 8;
    CHECK(broken.run(rest).first_sample == 12);
    CHECK(run_folder::read_checkpoint_info(broken.step(8)).samples == 12 + 2 * 4);
  }
  SECTION("in sequences of another length, behind the tokens that were read") {
    rest.micro_batch = 1;
    rest.seq_len = "10";
    rest.checkpoint = resume_from(broken.step(6));
    CHECK(broken.run(rest).first_sample == 20);  // 12 * 16 tokens: the next multiple of 10
  }
}

TEST_CASE("a checkpoint of an older am-run is taken, and nothing compared") {
  Runs runs;
  Job job;
  job.steps = 2;
  runs.run(job);
  auto info = run_folder::read_checkpoint_info(runs.step(2));
  info.lineage.clear();
  info.samples.reset();
  info.facts = nullptr;
  write_file_atomically(runs.step(2) / run_folder::kInfoFile, run_folder::to_json_text(info));
  job.steps = 3;
  job.seeds = "7";
  const Ran ran = runs.run(job);
  CHECK(ran.first_sample == 4);
  CHECK_THAT(ran.all(), Catch::Contains("nothing was compared"));
}

TEST_CASE("ranks with other data or another model do not start") {
  const Runs runs;
  Job job;
  job.ranks = 2;
  config::Plan plan = test::parse(plan_text(job));
  const fs::path copy = runs.folder().root() / "tokens.bin";
  fs::copy_file(test::data_path("loop/tokens.bin"), copy);
  fs::resize_file(copy, fs::file_size(copy) - 64);
  config::Plan elsewhere = plan;
  elsewhere.data.path = {copy.string()};
  runtime::run_ranks(2, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    std::string said;
    try {
      const config::Plan& own = world.rank() == 0 ? plan : elsewhere;
      train::Trainer(planner::make_job(own, *config, world.size()), world, runs.folder(), {});
    } catch (const Error& error) {
      said = error.what();
    }
    RANK_CHECK(said.find("rank 1 does not train what rank 0 trains") == 0);
    RANK_CHECK(said.find("data.tokens: 4992 there, 4960 here") != std::string::npos);
    RANK_CHECK(said.find("data.fingerprint: ") != std::string::npos);
  });
}

TEST_CASE("auto steps over what is not whole, and does not begin anew by itself") {
  Runs runs;
  Job job;
  job.checkpoint = "every = 2\n";
  runs.run(job);
  CHECK(runs.checkpoints() == std::set<std::string>{"step-2", "step-4", "step-6"});
  fs::remove(runs.step(6) / "checkpoint.json");
  fs::create_directory(runs.step(40));
  const Ran ran = runs.run(job);
  CHECK(ran.result.trained_steps == 2);
  CHECK_THAT(ran.all(), Catch::Contains("note        skipped: step-40 is not whole: ") &&
                            Catch::Contains("note        skipped: step-6 is not whole: ") &&
                            Catch::Contains("set aside: step-40.superseded"));
  for (const int64_t step : {2, 4, 6}) fs::remove(runs.step(step) / "__0_0.distcp");
  const Error error = runs.refusal(job);
  CHECK_THAT(error.what(), Catch::Contains("no checkpoint is whole:\n  step-6 is not whole"));
  CHECK_THAT(error.hint(), Catch::Contains("--resume none"));
}

TEST_CASE("going back sets aside what lies ahead, and keep counts the new way alone") {
  Runs runs;
  Job job;
  job.checkpoint = "every = 2\nkeep = 2\n";
  job.steps = 8;
  runs.run(job);
  CHECK(runs.checkpoints() == std::set<std::string>{"step-6", "step-8"});
  SECTION("to the beginning") {
    job.steps = 4;
    job.checkpoint += "resume = \"none\"\n";
    CHECK_THAT(runs.run(job).all(), Catch::Contains("set aside: step-8.superseded"));
    CHECK(runs.checkpoints() ==
          std::set<std::string>{"step-2", "step-4", "step-6.superseded", "step-8.superseded"});
    CHECK(observe::read_metrics(runs.folder().metrics_file()).size() == 4);
    CHECK(observe::read_metrics(runs.folder().metrics_file().string() + ".1").size() == 8);
  }
  SECTION("to an older step, which stays until there are newer ones") {
    job.checkpoint += resume_from(runs.step(6));
    job.steps = 8;
    runs.run(job);
    CHECK(runs.checkpoints() == std::set<std::string>{"step-6", "step-8", "step-8.superseded"});
    CHECK(observe::read_metrics(runs.folder().metrics_file()).size() == 8);
    job.checkpoint = "every = 2\nkeep = 2\n";
    job.steps = 10;
    runs.run(job);
    CHECK(runs.checkpoints() == std::set<std::string>{"step-8", "step-10", "step-8.superseded"});
  }
}

TEST_CASE("a job that has nothing to do says so and touches nothing") {
  Runs runs;
  Job job;
  job.steps = 4;
  job.checkpoint = "every = 2\n";
  runs.run(job);
  const Ran again = runs.run(job);
  CHECK(again.result.trained_steps == 0);
  CHECK_FALSE(again.result.last);
  CHECK_THAT(again.all(), Catch::Contains("nothing to do: step 4 of 4 is done"));
  job.steps = 1;
  job.checkpoint += resume_from(runs.step(2));
  CHECK_THAT(runs.run(job).all(), Catch::Contains("nothing to do: step 2 of 1 is done"));
  CHECK(runs.checkpoints() == std::set<std::string>{"step-2", "step-4"});
  CHECK(observe::read_metrics(runs.folder().metrics_file()).size() == 4);
}

TEST_CASE("a job without a step saves what it began with") {
  Runs runs;
  Job job;
  job.steps = 0;
  CHECK(runs.run(job).result.checkpoint == runs.step(0));
  job.steps = 2;
  CHECK_THAT(runs.run(job).all(), Catch::Contains("step-0, step 0"));
}

TEST_CASE("a checkpoint says which jobs led to it") {
  Runs runs;
  Job job;
  job.steps = 2;
  job.id = "first";
  runs.run(job);
  job.id = "second";
  job.steps = 4;
  job.checkpoint = "every = 1\n";
  runs.run(job);
  job.checkpoint = resume_from(runs.step(3));  // a restart of the same job
  job.steps = 5;
  runs.run(job);
  const std::vector<run_folder::JobStep> wanted = {{"first", 0}, {"second", 2}};
  CHECK((run_folder::read_checkpoint_info(runs.step(5)).lineage == wanted));
  CHECK_FALSE(fs::exists(runs.step(4)));
}

}  // namespace am
