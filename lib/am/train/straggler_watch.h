// Measures what the steps of this rank spend their time on, and names slow ranks, for which other
// ranks wait.
//
//   StragglerWatch watch(plan.metrics.straggler_seconds, world, mesh);
//   watch.exchange_hosts();
//   const StragglerWatch::Start start = watch.start();
//   ...                                             // the step
//   watch.fill(step_report);                        // goes to all ranks with the step
//   for (const std::string& line : watch.compare(numbers.times)) log(line);
//   watch.add_step(start, data_seconds);
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "am/observe/rank_times.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/world.h"
#include "am/train/step.h"

namespace am::train {

class StragglerWatch {
 public:
  struct Start {
    std::chrono::steady_clock::time_point time;
    double waited = 0.0;  // seconds for which the rank had waited for others
  };

  // `every`: seconds between two comparisons; 0: no comparison. `mesh` must outlive this object.
  StragglerWatch(double every, const runtime::World& world, const runtime::DeviceMesh& mesh);

  // Exchanges the names of the hosts, before the first comparison. Collective.
  void exchange_hosts();
  Start start() const;
  // Adds a step that ends now. `data_seconds`: the part of it that was spent on reading batches.
  // Returns the part that was spent on waiting for other ranks.
  double add_step(const Start& start, double data_seconds);
  // Adds the saving of a checkpoint, which ends now.
  void add_saving(const Start& start);
  // Returns this rank's times in all its steps.
  const observe::RankTimes& times() const { return times_; }
  int64_t steps() const { return steps_; }

  // Sets `times` of the report, and on rank 0 `compare` if a comparison is due.
  void fill(StepReport& report);
  // Compares the average times per step that fill() has reported on all ranks (StepNumbers::times).
  // Must be called before the next add_step(). On rank 0, returns lines for the log about slow
  // ranks.
  std::vector<std::string> compare(const std::vector<observe::RankTimes>& times);

 private:
  double take_waiting(const Start& start);

  double every_;
  runtime::World world_;
  const runtime::DeviceMesh& mesh_;
  std::vector<std::string> hosts_;  // host of each rank
  observe::RankTimes times_;        // in all steps
  observe::RankTimes compared_;     // the part of times_ that was compared
  int64_t steps_ = 0;
  int64_t compared_steps_ = 0;
  std::chrono::steady_clock::time_point compared_at_ = std::chrono::steady_clock::now();
  // For each rank, its times in the comparison in which RankTimes::own() was smallest.
  std::vector<observe::RankTimes> fastest_;
};

}  // namespace am::train
