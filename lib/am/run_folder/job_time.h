// Time that a job has spent in each phase, over all its attempts (a job that fails is restarted).
// Also the job's goodput: the fraction of its time that was spent on steps that need not be
// repeated after a failure.
//
//   JobClock clock;                          // starts the clock of this attempt
//   clock.enter(Phase::kLoading);
//   clock.follow(before, began);             // adds the time of the job's earlier attempts
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
  // Start of the processes, rendezvous, and construction of the model. After a failure also the
  // time until the failure is detected.
  kStarting,
  kLoading,     // loading of a checkpoint, or of the initial values
  kSteps,       // steps, with their validation and metrics; without steps of kStepsAgain
  kStepsAgain,  // steps after the last checkpoint before a failure, which are trained again
  kSaving,      // time for which training waited for checkpoints and for the export
  kVisits,      // commands of am-repl that run between steps
  kStopping,    // from the end of the last save and the export to the end of the job
};
inline constexpr std::array<std::string_view, 7> kPhaseNames = {
    "starting", "loading", "steps", "steps_again", "saving", "visits", "stopping"};

struct JobTime {
  std::array<double, kPhaseNames.size()> seconds = {};  // seconds spent in each phase, [Phase]
  int64_t failures = 0;                                 // number of failures that ended an attempt
  int64_t steps_again = 0;                              // number of steps trained again
  // End of the time that has been counted, as Unix time in seconds; 0: none was counted.
  double until = 0.0;
  // A recent checkpoint, from which training may resume after a failure.
  struct Saved {
    int64_t step = 0;      // number of finished steps
    double seconds = 0.0;  // seconds[kSteps] at the checkpoint, which fail_back() restores
  };
  std::vector<Saved> saved;

  double& operator[](Phase phase) { return seconds[static_cast<size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds[static_cast<size_t>(phase)]; }
  double total() const;
  // Returns the fraction of total() that was spent in kSteps; 0 if total() is 0.
  double goodput() const;
  // Counts a failure. Moves the time of the steps that must be trained again from kSteps to
  // kStepsAgain. `step`: finished steps at the checkpoint from which training resumes. `done`:
  // finished steps when the job failed. `first`: finished steps when the job began.
  void fail_back(int64_t step, int64_t done, int64_t first);
  // Adds a checkpoint to `saved`, which keeps the last 32. `step`: number of finished steps.
  void save(int64_t step);
  // Adds the time from `until` to now to the seconds of `phase`, and sets `until` to now. Adds
  // nothing if `until` is 0.
  void extend(Phase phase);
};

// Returns an object such as
// {"goodput": 0.93, "failures": 4, "steps_again": 61, "seconds": {"starting": .., ..}}.
Json to_json(const JobTime& time);
// Convert to and from the JSON that a JobRecord contains: the object of to_json() with two more
// fields, "until" and "saved". job_time_from() throws Json::exception if fields are missing or have
// wrong types.
Json to_record(const JobTime& time);
JobTime job_time_from(const Json& record);

// Returns a line for the user, for example "93.1 %: 4 failures, 61 steps again, 22 min starting, 3
// min saving". Lists the phases, except kSteps and kStepsAgain, that took more than 1 % of the
// total time.
std::string goodput_text(const JobTime& time);

// Returns the current Unix time in seconds.
double unix_time();

class JobClock {
 public:
  // Ends the current phase and begins `phase`.
  void enter(Phase phase);
  // Adds `before`, the time of the job's earlier attempts. The time from the end of the last
  // attempt to the creation of this clock counts as kStarting. If there was no earlier attempt
  // (before.until is 0), the time from `began` to the creation of this clock counts as kStarting
  // instead. `began`: Unix time in seconds at which the job began; 0: unknown, nothing is added.
  void follow(const JobTime& before, double began);
  void save(int64_t step) { time_.save(step); }
  // Returns the times of all phases, including the current phase up to now.
  const JobTime& time();

 private:
  JobTime time_;
  Phase phase_ = Phase::kStarting;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace am::run_folder
