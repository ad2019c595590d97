// Measures the time that this rank spends in its steps on computing, reading data, saving and
// waiting. Finds slow ranks, for which other ranks wait.
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
    double waited = 0.0;  // total seconds for which the rank had waited until then
  };

  // `every`: seconds between two comparisons; 0: no comparison. `mesh` must outlive this object.
  StragglerWatch(double every, const runtime::World& world, const runtime::DeviceMesh& mesh);

  // Exchanges the names of the hosts. Must be called before the first comparison. Collective.
  void exchange_hosts();
  // Returns the start of a step or of a save that begins now.
  Start start() const;
  // Adds the times of a step that began at `start` and ends now. `data_seconds`: seconds of the
  // step that were spent on reading batches. Returns the seconds that were spent on waiting for
  // other ranks.
  double add_step(const Start& start, double data_seconds);
  // Adds the time of saving a checkpoint, from `start` to now.
  void add_saving(const Start& start);
  // Returns this rank's times, summed over all steps and saves.
  const observe::RankTimes& times() const { return times_; }
  int64_t steps() const { return steps_; }

  // Sets report.times. On rank 0, also sets report.compare if a comparison is due.
  void fill(StepReport& report);
  // Compares the average times per step that fill() reported on each rank (StepNumbers::times).
  // Must be called on all ranks, between fill() and the next add_step(). Returns lines for the log
  // about slow ranks on rank 0, and no lines on other ranks.
  std::vector<std::string> compare(const std::vector<observe::RankTimes>& times);

 private:
  double take_waiting(const Start& start);

  double every_;
  runtime::World world_;
  const runtime::DeviceMesh& mesh_;
  std::vector<std::string> hosts_;  // host of each rank
  observe::RankTimes times_;        // sums over all steps and saves
  observe::RankTimes compared_;     // times_ at the last comparison
  int64_t steps_ = 0;
  int64_t compared_steps_ = 0;  // steps_ at the last comparison
  std::chrono::steady_clock::time_point compared_at_ = std::chrono::steady_clock::now();
  // For each rank, its times in that comparison in which its RankTimes::own() was smallest.
  std::vector<observe::RankTimes> fastest_;
};

}  // namespace am::train
