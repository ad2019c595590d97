// RUN/result.json: the record of the last job in this run folder, with its first and last step. By
// the record, readers distinguish an earlier job's numbers from the current job's.
//
//   JobRecord record = begin_record(run, job, first_step);       // rank 0, before the first step
//   record.steps = 20; record.ended = true; write_record(run, record);
//   read_outcome(run, launcher).trained_steps;                   // in the launcher
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/run_folder/job_time.h"
#include "am/run_folder/run_folder.h"

namespace am::run_folder {

// A job's id, and the random ids of its launchers, one per machine; the job's id is that of rank
// 0's launcher. The ranks agree on the identity in train/job_identity.h.
struct JobIdentity {
  std::string id;
  std::vector<std::string> launchers;
  double began = 0.0;  // Unix time in seconds, by the clock of rank 0's launcher; 0: unknown
};

struct JobRecord {
  JobIdentity job;
  int64_t first_step = 0;      // steps finished before this job; a restart does not change it
  int64_t steps = 0;           // finished steps
  std::optional<double> loss;  // of the last step; nothing if none was trained
  bool stopped = false;        // by the user, before max_steps
  bool ended = false;          // the record is final; otherwise the job is running, or failed
  JobTime time;                // time of all attempts, until the record was written
};

// Returns nothing if the record is missing or cannot be read.
std::optional<JobRecord> read_record(const RunFolder& run);
// Throws Error(kIo).
void write_record(const RunFolder& run, const JobRecord& record);
// Overwrites the existing file without shortening it. This works on a full disk, when a job fails,
// and is cheap enough to record progress. Throws Error(kIo).
void write_record_in_place(const RunFolder& run, const JobRecord& record);
// Writes the record of a job that begins or restarts; after a restart, its time is that of the
// earlier attempts.
JobRecord begin_record(const RunFolder& run, const JobIdentity& job, int64_t first_step);

struct JobOutcome {
  std::optional<int64_t> steps;  // finished, including earlier jobs' steps; nothing: unknown
  int64_t trained_steps = 0;     // steps of this job
  std::optional<double> loss;    // of the last step
  bool stopped = false;
  std::optional<JobTime> time;  // nothing: unknown
};

// Returns the outcome of this launcher's job, from the record. If the job did not end by itself,
// uses the record or metrics.jsonl, whichever has more steps (a full disk may have lost lines of
// the metrics). Without a record of this job, no step was trained. Throws Error(kFormat) for
// invalid metrics.
JobOutcome read_outcome(const RunFolder& run, const std::string& launcher);

}  // namespace am::run_folder
