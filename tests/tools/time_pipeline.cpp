// Measures steps of every pipeline schedule with passes of known duration, and prints them next to
// am-plan's simulation. scripts/bench/pipeline_bubble builds and starts this program.
//
//   time_pipeline [PP [MICROBATCHES [MILLISECONDS]]]
//
// MILLISECONDS is the duration of one micro-batch's forward passes through all stages of a rank.
// Stages compute almost nothing and then sleep, so that ranks do not compete for processors. The
// rest of a step's time is spent waiting for other ranks and for messages.
#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/schedule_names.h"
#include "am/pipeline/timeline.h"
#include "am/term/style.h"
#include "am/term/table.h"
#include "support/plans.h"

namespace {

using namespace am;
using Clock = std::chrono::steady_clock;

constexpr int64_t kLength = 8;

class Ones : public parallel::MicroBatches {
 public:
  explicit Ones(int64_t count) : count_(count) {}
  int64_t count() const override { return count_; }
  parallel::MicroBatch read(int64_t /*m*/) override {
    const at::Tensor ids = at::ones({1, kLength}, at::kLong);
    return {ids, ids};
  }

 private:
  int64_t count_;
};

// Returns the seconds of the fastest of three steps.
double measure(const pipeline::PipelineShape& shape, const pipeline::Durations& durations) {
  const config::Plan plan = test::parse(cat(
      "[model]\npath = \"table_deep\"\n[train]\nseq_len = ", kLength, "\n[pipeline]\nschedule = \"",
      shape.schedule, "\"\nvirtual_stages = ", shape.virtual_stages,
      "\nmicrobatches = ", shape.microbatches, "\n[mesh]\nworld_size = ", shape.pp,
      "\npp_size = ", shape.pp, "\n[strategy]\nname = \"fsdp2\"\n", test::kFullPrecision));
  double fastest = 0.0;
  runtime::run_ranks(shape.pp, [&](const runtime::World& world) {
    const test::RankModel rank(plan, world);
    rank.model->pipeline()->on_action = [&](const pipeline::Action& action) {
      const auto& stage = durations.stages[static_cast<size_t>(action.stage)];
      std::this_thread::sleep_for(
          std::chrono::duration<double>(pipeline::pass_length(action.kind, stage)));
    };
    Ones batches(shape.microbatches);
    for (int step = 0; step < 4; ++step) {
      rank.model->zero_grad();
      rank.mesh.group("world").barrier();
      const auto start = Clock::now();
      rank.model->forward_backward(batches, {.divisor = 1.0});
      rank.mesh.group("world").barrier();
      const std::chrono::duration<double> took = Clock::now() - start;
      // The first step is not measured, because it creates connections.
      if (world.rank() != 0 || step == 0) continue;
      fastest = step == 1 ? took.count() : std::min(fastest, took.count());
    }
  });
  return fastest;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, int64_t otherwise) {
    return argc > i ? std::atoll(argv[i]) : otherwise;
  };
  const int64_t pp = argument(1, 4);
  const int64_t microbatches = argument(2, 2 * pp);
  const double forward = static_cast<double>(argument(3, 20)) / 1000.0;
  using term::Align;
  term::Table table({{"schedule"},
                     {"am-plan's bubble", Align::kRight},
                     {"simulated", Align::kRight},
                     {"measured", Align::kRight},
                     {"longer by", Align::kRight}});
  double worst = 0.0;
  for (const std::string_view name : config::kScheduleNames) {
    const int64_t stages = name == "gpipe" || name == "1f1b" ? 1 : 2;
    const pipeline::PipelineShape shape = {std::string(name), pp, stages, microbatches};
    pipeline::Durations durations = pipeline::Durations::even(shape.stages(), pp);
    for (pipeline::StageDurations& each : durations.stages) {
      for (double* part : {&each.forward, &each.backward_input, &each.backward_weight}) {
        *part *= forward;
      }
    }
    const auto timeline = pipeline::simulate(pipeline::make_schedule(shape), durations);
    const double measured = measure(shape, durations);
    const double longer = measured / timeline.makespan - 1.0;
    worst = std::max(worst, longer);
    table.add({std::string(name), cat(format_fixed(100.0 * timeline.bubble_fraction, 1), " %"),
               format_duration(timeline.makespan), format_duration(measured),
               cat(format_fixed(100.0 * longer, 1), " %")});
  }
  std::cout << pp << " ranks, " << microbatches << " micro-batches\n\n"
            << table.text(term::Style());
  return worst < 0.15 ? 0 : 1;
}
