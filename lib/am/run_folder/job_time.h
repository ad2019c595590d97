// Time of a job over all its attempts, by phase, and goodput: the share of the time that was spent
// on steps that no failure undid.
//
//   JobClock clock;                          // starts the clock of this attempt
//   clock.enter(Phase::kLoading);
//   clock.follow(before, began);             // adds the earlier attempts' time, from their record
//   clock.enter(Phase::kSteps);
//   clock.time().goodput();                  // 0.93
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/json.h"

namespace am::run_folder {

enum class Phase {
  kStarting,    // processes, rendezvous, the model; after a failure also the time to detect it
  kLoading,     // of a checkpoint, or of the initial values
  kSteps,       // kept steps, with validation and metrics
  kStepsAgain,  // steps that a failure undid and that are trained again
  kSaving,      // time for which training waited for checkpoints and the export
  kVisits,      // commands of am-repl between steps
  kStopping,    // from the last step's save to the end of the job
};
inline constexpr std::array<std::string_view, 7> kPhaseNames = {
    "starting", "loading", "steps", "steps_again", "saving", "visits", "stopping"};

struct JobTime {
  std::array<double, kPhaseNames.size()> seconds = {};  // by Phase
  int64_t failures = 0;                                 // failures that ended an attempt
  int64_t steps_again = 0;                              // steps that failures undid
  double until = 0.0;  // Unix time in seconds up to which `seconds` counts; 0: nothing was counted
  // The last checkpoints: the steps finished at a checkpoint, and the time of kSteps that counts if
  // training resumes from it.
  struct Saved {
    int64_t step = 0;
    double seconds = 0.0;
  };
  std::vector<Saved> saved;

  double& operator[](Phase phase) { return seconds[static_cast<size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds[static_cast<size_t>(phase)]; }
  double total() const;
  // Returns the share of kSteps in total(); 0 if total() is 0.
  double goodput() const;
  // Counts a failure after `done` finished steps; training resumes from `step`, and the job began
  // at step `first`.
  void fail_back(int64_t step, int64_t done, int64_t first);
  // Remembers a checkpoint.
  void save(int64_t step);
  // Adds the time from `until` to now to `phase`.
  void extend(Phase phase);
};

// {"goodput": 0.93, "failures": 4, "steps_again": 61, "seconds": {"starting": .., ..}}
Json to_json(const JobTime& time);
// to_record() returns to_json() with the fields that job_time_from() needs, "until" and "saved".
// job_time_from() throws Json::exception.
Json to_record(const JobTime& time);
JobTime job_time_from(const Json& record);

// Returns "93.1 %: 4 failures, 61 steps again, 22 min starting, 3 min saving", with losses of more
// than 1 % of the time.
std::string goodput_text(const JobTime& time);

// Returns the Unix time in seconds.
double unix_time();

class JobClock {
 public:
  // Adds the elapsed time to the current phase and begins `phase`.
  void enter(Phase phase);
  // Adds the time of the job's earlier attempts. If there are none (`before` is empty), the job
  // began at Unix time `began` in seconds (0: when this clock began). The time until this clock
  // began counts as kStarting.
  void follow(const JobTime& before, double began);
  void save(int64_t step) { time_.save(step); }
  // Returns all times, up to now.
  const JobTime& time();

 private:
  JobTime time_;
  Phase phase_ = Phase::kStarting;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace am::run_folder
