// RUN/result.json: record of the job that trained here last, and of its first and last step. It
// tells an earlier job's numbers from those of the current one.
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

// A job's id, and the ids that its launchers drew, one per machine; the job's id is that of rank
// 0's launcher. The ranks agree on it: train/job_identity.h.
struct JobIdentity {
  std::string id;
  std::vector<std::string> launchers;
  double began = 0.0;  // Unix time in seconds, by the clock of rank 0's launcher; 0: unknown
};

struct JobRecord {
  JobIdentity job;
  int64_t first_step = 0;      // steps finished before this job, restarts included
  int64_t steps = 0;           // finished
  std::optional<double> loss;  // of the last step; nothing if none was trained
  bool stopped = false;        // by the user, before max_steps
  bool ended = false;          // the record is final; otherwise the job is running, or failed
  JobTime time;                // of all its attempts, until this was written
};

// Returns nothing if the record is missing or cannot be read.
std::optional<JobRecord> read_record(const RunFolder& run);
// Throws Error(kIo).
void write_record(const RunFolder& run, const JobRecord& record);
// Overwrites the existing file without shortening it: works on a full disk, for a job that fails,
// and is cheap, for records of progress. Throws Error(kIo).
void write_record_in_place(const RunFolder& run, const JobRecord& record);
// Writes the record of a job that begins or restarts; after a restart its time is that of the
// failed attempts.
JobRecord begin_record(const RunFolder& run, const JobIdentity& job, int64_t first_step);

struct JobOutcome {
  std::optional<int64_t> steps;  // finished, including earlier jobs'; nothing: unknown
  int64_t trained_steps = 0;     // by this job
  std::optional<double> loss;    // of the last of them
  bool stopped = false;
  std::optional<JobTime> time;  // nothing: unknown
};

// Returns the outcome of this launcher's job, from the record and, if the job did not end by
// itself, from metrics.jsonl, whichever has more steps (a full disk may have lost lines of the
// metrics). A job without a record yet has trained nothing. Throws Error(kFormat) for invalid
// metrics.
JobOutcome read_outcome(const RunFolder& run, const std::string& launcher);

}  // namespace am::run_folder
