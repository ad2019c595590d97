// Tests predictions for context parallelism: am-plan's bytes sent equal a dry run's, am-plan's peak
// equals a dry run's within 2%, and a dry run's peak equals the peak of real training within 2%.
#include <catch2/catch.hpp>
#include <filesystem>
#include <numeric>

#include "am/base/text.h"
#include "am/predict/memory/memory.h"
#include "am/predict/time/prediction.h"
#include "am/tensor/memory_meter.h"
#include "am/train/dry_run.h"
#include "am/train/trainer.h"
#include "support/plans.h"

namespace am {
namespace {

struct TrafficCase {
  std::string family = "llama";
  int64_t world = 2, cp = 2;
  std::string mesh = {}, strategy = {};
  int64_t length = 64;
};

job::Job job_of(const TrafficCase& one, const std::string& method) {
  const config::Plan plan =
      test::parse(cat("[model]\npath = \"hf/", one.family,
                      "\"\nweights = \"none\"\n[train]\nseq_len = ", one.length,
                      "\nmicro_batch_size = 4\n[mesh]\nworld_size = ", one.world,
                      "\ncp_size = ", one.cp, "\n", one.mesh, "[context]\nmethod = \"", method,
                      "\"\n[strategy]\nbackend = \"gloo\"\n", test::kFullPrecision, one.strategy));
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  return job::make_job(plan, *config, one.world);
}

// Returns the bytes that a rank sends in all collectives of one operation over `ranks` ranks.
// collective.bytes is the sum of the collectives' sizes. In "rotate", a rank sends the full size;
// in any other collective, a rank sends all but 1/ranks of the size.
double sent(const train::CollectiveCount& collective, int64_t ranks) {
  const auto bytes = static_cast<double>(collective.bytes);
  if (collective.op == "rotate") return bytes;
  return bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

double planned_bytes(const job::Job& job) {
  Diagnostics found;
  const auto gpu = cluster::find_gpu("h100-sxm", {}, {}, found);
  const predict::Workload workload = predict::workload_of(job.plan, job.model, job.layout);
  return predict::estimate_step_time(workload, *gpu, predict::default_calibration().constants)
      .bytes.cp;
}

// Trains two steps and returns the peak memory of each rank in bytes.
std::vector<double> measured_peaks(const job::Job& job, int64_t ranks) {
  std::vector<double> peaks(static_cast<size_t>(ranks));
  const auto nowhere = std::filesystem::temp_directory_path() / "am-no-such-run";
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    const tensor::MemoryMeter meter;
    train::Trainer trainer(job, world, run_folder::RunFolder(nowhere), {});
    for (const int64_t step : {0, 1}) trainer.train_step(step);
    peaks[static_cast<size_t>(world.rank())] = static_cast<double>(meter.peak().total());
  });
  return peaks;
}

}  // namespace

TEST_CASE("a step of context parallelism takes the memory of its dry run") {
  const std::string method = GENERATE("ring", "all_gather", "ulysses");
  const auto one = GENERATE(
      TrafficCase{}, TrafficCase{.world = 4, .cp = 4, .length = 50},
      TrafficCase{.family = "gpt_oss"},
      TrafficCase{.world = 4, .mesh = "tp_size = 2\n", .strategy = "sequence_parallel = true\n"});
  const job::Job job = job_of(one, method);
  const std::vector<double> peaks = measured_peaks(job, one.world);
  for (size_t rank = 0; rank < peaks.size(); ++rank) {
    INFO(one.family << ", " << method << ", cp " << one.cp << ", rank " << rank);
    const auto run = train::dry_run(job, static_cast<int64_t>(rank));
    const auto dry = static_cast<double>(run.peak.total());
    CHECK(peaks[rank] > 0.98 * dry);
    CHECK(peaks[rank] < 1.02 * dry);
  }
}

TEST_CASE("what context parallelism sends and keeps is predicted") {
  const std::string method = GENERATE("ring", "all_gather", "ulysses");
  const std::string full = "activation_checkpointing = true\n";
  const auto one =
      GENERATE_COPY(TrafficCase{}, TrafficCase{.world = 4, .cp = 4}, TrafficCase{.length = 51},
                    TrafficCase{.strategy = full},
                    TrafficCase{.strategy = "activation_checkpointing = \"mlp\"\n"},
                    TrafficCase{.world = 4, .mesh = "tp_size = 2\n"},
                    TrafficCase{.world = 4,
                                .mesh = "tp_size = 2\n",
                                .strategy = "sequence_parallel = true\n",
                                .length = 50},
                    TrafficCase{.family = "mistral", .world = 4, .cp = 4},
                    TrafficCase{.family = "gemma2", .world = 4, .cp = 4, .strategy = full},
                    TrafficCase{.family = "gpt_oss"}, TrafficCase{.family = "deepseek_v2-dense"});
  const job::Job job = job_of(one, method);
  const train::DryRun run = train::dry_run(job, 0);
  const double measured = std::accumulate(
      run.collectives.begin(), run.collectives.end(), 0.0, [&](double sum, const auto& each) {
        return each.group == "cp" ? sum + sent(each, one.cp) : sum;
      });
  INFO(one.family << ", " << method << ", cp " << one.cp << ", T " << one.length << " " << one.mesh
                  << one.strategy);
  CHECK(measured > 0.0);
  CHECK(planned_bytes(job) == Approx(measured).epsilon(1e-9));
  const auto planned = static_cast<double>(
      predict::estimate_memory(job.plan, job.model, job.layout, 0).components.total());
  CHECK(planned == Approx(static_cast<double>(run.peak.total())).epsilon(0.02));
}

}  // namespace am
