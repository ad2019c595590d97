// RUN/result.json: which job trained here last, from where to where; so that nobody takes an
// earlier job's numbers for its own.
//
//   JobRecord record = begin_record(run, job, first_step);       // rank 0, before the first step
//   record.steps = 20; record.ended = true; ...; write_record(run, record);
//   read_outcome(run, launcher).trained_steps                    // whoever started the job
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/run_folder/run_folder.h"

namespace am::run_folder {

// A job's id, and those that its launchers drew, one a machine: the id is that of rank 0's. The
// ranks agree on it: train/job_identity.h.
struct JobIdentity {
  std::string id;
  std::vector<std::string> launchers;
};

struct JobRecord {
  JobIdentity job;
  int64_t first_step = 0;      // finished before this job, restarts included
  int64_t steps = 0;           // finished
  std::optional<double> loss;  // of the last step; nothing when none was trained
  bool stopped = false;        // by the user, before max_steps
  bool ended = false;          // the rest is final; else the job runs, or failed
};

// Nothing when there is none, or none that can be read.
std::optional<JobRecord> read_record(const RunFolder& run);
// Throws Error(kIo).
void write_record(const RunFolder& run, const JobRecord& record);
// For a job that fails, on a disk that may be full: into the file that is there. Throws Error(kIo).
void write_record_in_place(const RunFolder& run, const JobRecord& record);
// Writes the record of a job that begins, or that goes on after a restart.
JobRecord begin_record(const RunFolder& run, const JobIdentity& job, int64_t first_step);

struct JobOutcome {
  std::optional<int64_t> steps;  // finished, those of earlier jobs included; nothing: unknown
  int64_t trained_steps = 0;     // by this job
  std::optional<double> loss;    // of the last of them
  bool stopped = false;
};

// The outcome of the job of this launcher. Where the job did not end by itself, metrics.jsonl tells
// it, which may be behind the record by lines that a full disk did not take.
// A job that did not get as far as its first step has trained nothing. Throws Error(kFormat) for
// metrics that are none.
JobOutcome read_outcome(const RunFolder& run, const std::string& launcher);

}  // namespace am::run_folder
