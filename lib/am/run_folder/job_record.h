// Reads and writes result.json in a run folder: the record of the folder's last job, with the job's
// first and last step. Readers of the folder need the record to separate the steps of this job from
// those of earlier jobs.
//
//   JobRecord record = begin_record(run, job, first_step);       // by rank 0, before it trains
//   record.steps = 20; record.ended = true; write_record(run, record);
//   read_outcome(run, launcher).trained_steps;                   // by the launcher, after the job
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/run_folder/job_time.h"
#include "am/run_folder/run_folder.h"

namespace am::run_folder {

// Identity of a job: its id, and the random ids of am-run's launchers, one per machine. The job's
// id is the id of rank 0's launcher. If the job was started without am-run, rank 0 generates the
// id, and `launchers` is empty. All ranks agree on the identity (train/job_identity.h).
struct JobIdentity {
  std::string id;
  std::vector<std::string> launchers;
  double began = 0.0;  // Unix time in seconds, by the clock of rank 0's launcher; 0: unknown
};

struct JobRecord {
  JobIdentity job;
  // Number of steps that were finished before this job. A restart of the job changes this number
  // only if training then resumes from an earlier step.
  int64_t first_step = 0;
  int64_t steps = 0;           // number of finished steps, including those of earlier jobs
  std::optional<double> loss;  // loss of the last step; nullopt if the job has trained no step
  bool stopped = false;        // the user, or train.max_time, stopped the job before max_steps
  bool ended = false;          // the record is final; otherwise the job is running, or has failed
  Json cause;                  // cause of the job's failure, as am-run prints it; null: none
  JobTime time;                // time of all attempts of the job, until the record was written
};

// Returns the record; nullopt if result.json is missing or is not a valid record. Throws Error(kIo)
// if result.json cannot be read.
std::optional<JobRecord> read_record(const RunFolder& run);
// Replaces the record. Throws Error(kIo) if the new record cannot be written.
void write_record(const RunFolder& run, const JobRecord& record);
// Overwrites the bytes of the existing record. Unlike write_record(), this function needs no free
// disk space and is cheap enough to be called often. Throws Error(kIo) if the record cannot be
// written.
void write_record_in_place(const RunFolder& run, const JobRecord& record);
// Writes and returns the record of a job that begins or restarts. After a restart, the record
// includes the time of the job's earlier attempts.
JobRecord begin_record(const RunFolder& run, const JobIdentity& job, int64_t first_step);

struct JobOutcome {
  // Number of finished steps, including those of earlier jobs. nullopt: the run folder has no
  // record of this job; the job then trained no step.
  std::optional<int64_t> steps;
  int64_t trained_steps = 0;    // number of steps that this job has trained
  std::optional<double> loss;   // loss of the last step
  bool stopped = false;         // the user, or train.max_time, stopped the job before max_steps
  std::optional<JobTime> time;  // time of all attempts of the job; nullopt: unknown
};

// Returns the outcome of the job that `launcher` (an id) has started, from the job's record. If the
// record is not final (`ended` is false), `steps` is the larger of the numbers in the record and in
// metrics.jsonl, because either file may lack the last steps. Throws Error(kFormat) for invalid
// metrics.
JobOutcome read_outcome(const RunFolder& run, const std::string& launcher);

}  // namespace am::run_folder
