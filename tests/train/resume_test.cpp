// Tests from which checkpoint a run resumes, which settings must agree with the checkpoint, and at
// which position in the data the run continues.
#include "am/train/resume.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "support/rank_check.h"
#include "train/resumed_runs.h"

namespace am {

using test::Job;
using test::plan_text;
using test::Ran;
using test::resume_from;
using test::Runs;
namespace fs = std::filesystem;

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
  CHECK_THAT(error.what(),
             Catch::Contains("step-2: the checkpoint belongs to a run with other settings:\n"));
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
    train::Trainer(job::make_job(plan, *other, 1), runtime::World::single(), runs.folder(), {});
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

TEST_CASE("an absent batch is one round of the pipeline, and a checkpoint's must be whole rounds") {
  const config::Plan plan = test::parse(
      "[model]\npath = \"loop/model\"\n[mesh]\nworld_size = 4\npp_size = 2\n"
      "[train]\nseq_len = 16\nmicro_batch_size = 3\n");
  Diagnostics found;
  const auto sizes = layout::resolve_mesh(plan, 4, found);
  REQUIRE(sizes);
  train::ResumePoint begin;
  CHECK(train::with_batch(plan, *sizes, begin).train.global_batch_size == 2 * 3 * 2);
  begin.info.facts = {{"train.global_batch_size", 24}};
  CHECK(train::with_batch(plan, *sizes, begin).train.global_batch_size == 24);
  begin.info.facts = {{"train.global_batch_size", 18}};  // three micro-batches on each rank
  CHECK_THROWS_WITH(train::with_batch(plan, *sizes, begin),
                    Catch::Contains("into pipeline rounds of 2 micro-batches of 3 sequences"));
}

TEST_CASE("data goes on where it stood on another number of ranks") {
  Runs straight;
  Job job;
  job.steps = 12;
  const Ran whole = straight.run(job);
  CHECK_THAT(whole.all(), Catch::Contains("batch       2 sequences per step, one micro-batch of "));
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
    CHECK_THAT(second.all(), Catch::Contains("batch       2 sequences per step, as in the checkp"));
    REQUIRE(second.losses.size() == 6);
    for (size_t i = 0; i < 6; ++i) {
      CHECK(second.losses[i] == Approx(whole.losses[6 + i]).epsilon(1e-6));
    }
  }
  SECTION("whose share is not: the batch does not change by itself") {
    const Error error = broken.refusal(rest);
    CHECK_THAT(error.what(), Catch::Contains("trained with 2 sequences per step, but 2 data-"));
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
    CHECK(broken.run(rest).first_sample == 20);  // 12 * 16 = 192 tokens: sample 20 begins at 200
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
      train::Trainer(job::make_job(own, *config, world.size()), world, runs.folder(), {});
    } catch (const Error& error) {
      said = error.what();
    }
    RANK_CHECK(said.find("rank 1 has other data or another model than rank 0") == 0);
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
  CHECK_THAT(ran.all(), Catch::Contains("note        skipped: step-40 is incomplete: ") &&
                            Catch::Contains("note        skipped: step-6 is incomplete: ") &&
                            Catch::Contains("set aside: step-40.superseded"));
  for (const int64_t step : {2, 4, 6}) fs::remove(runs.step(step) / "__0_0.distcp");
  const Error error = runs.refusal(job);
  CHECK_THAT(error.what(), Catch::Contains("no checkpoint is complete:\n  step-6 is incomplete"));
  CHECK_THAT(error.hint(), Catch::Contains("--resume none"));
}

TEST_CASE("a checkpoint without one rank's file is refused on all ranks alike") {
  Runs runs;
  Job job;
  job.ranks = 4;
  job.micro_batch = 1;
  runs.run(job);
  const fs::path file = runs.step(6) / "__2_0.distcp";
  std::string problem;
  SECTION("it is missing") {
    fs::remove(file);
    problem = "__2_0.distcp: cannot read: No such file or directory";
  }
  SECTION("it is another rank's") {
    fs::copy_file(runs.step(6) / "__1_0.distcp", file, fs::copy_options::overwrite_existing);
    problem =
        "__2_0.distcp: it does not match checkpoint.json in the same folder: their labels are ";
  }
  job.steps = 8;
  job.checkpoint = resume_from(runs.step(6));
  std::mutex mutex;
  std::vector<std::string> said;
  runtime::run_ranks(4, [&](const runtime::World& world) {
    try {
      train::choose_resume_point(test::parse(plan_text(job)), runs.folder().checkpoints(), world);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      said.push_back(cat(to_string(error.kind()), ": ", error.what(), ": ", error.hint()));
    }
  });
  REQUIRE(said.size() == 4);
  CHECK_THAT(said[0], Catch::Contains(problem));
  CHECK(std::set<std::string>(said.begin(), said.end()).size() == 1);
  CHECK_THAT(runs.refusal(job).what(), Catch::Contains(problem));
  job.checkpoint.clear();
  CHECK_THAT(runs.refusal(job).what(),
             Catch::Contains("no checkpoint is complete") && Catch::Contains(problem));
}

}  // namespace am
