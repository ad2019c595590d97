#include "am/run_folder/job_record.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/json_integer.h"
#include "am/observe/metrics.h"

namespace am::run_folder {

std::optional<JobRecord> read_record(const RunFolder& run) {
  if (!std::filesystem::exists(run.result_file())) return std::nullopt;
  try {
    const Json json = Json::parse(read_file(run.result_file()));
    JobRecord record;
    record.job.id = json.at("job").get<std::string>();
    record.job.launchers = json.at("launchers").get<std::vector<std::string>>();
    record.first_step = integer_of(json.at("first_step"));
    record.steps = integer_of(json.at("steps"));
    if (json.at("loss").is_number()) record.loss = json.at("loss").get<double>();
    record.stopped = json.at("stopped").get<bool>();
    record.ended = json.at("ended").get<bool>();
    return record;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void write_record(const RunFolder& run, const JobRecord& record) {
  const Json json = {{"job", record.job.id},
                     {"launchers", record.job.launchers},
                     {"first_step", record.first_step},
                     {"steps", record.steps},
                     {"trained_steps", record.steps - record.first_step},
                     {"loss", record.loss ? Json(*record.loss) : Json()},
                     {"stopped", record.stopped},
                     {"ended", record.ended}};
  write_file_atomically(run.result_file(), dump_json(json) + "\n");
}

JobRecord begin_record(const RunFolder& run, const JobIdentity& job, int64_t first_step) {
  JobRecord record;
  record.job = job;
  record.first_step = first_step;
  record.steps = first_step;
  const auto before = read_record(run);
  if (before && before->job.id == job.id) {
    record.first_step = std::min(first_step, before->first_step);
  }
  write_record(run, record);
  return record;
}

JobOutcome read_outcome(const RunFolder& run, const std::string& launcher) {
  JobOutcome outcome;
  const auto record = read_record(run);
  if (!record) return outcome;
  const auto& launchers = record->job.launchers;
  if (std::find(launchers.begin(), launchers.end(), launcher) == launchers.end()) return outcome;
  outcome.steps = record->steps;
  outcome.loss = record->loss;
  outcome.stopped = record->stopped;
  if (!record->ended && std::filesystem::exists(run.metrics_file())) {
    const auto lines = observe::read_metrics(run.metrics_file());
    if (!lines.empty() && lines.back().step > record->first_step) {
      outcome.steps = lines.back().step;
      outcome.loss = lines.back().loss;
    }
  }
  outcome.trained_steps = *outcome.steps - record->first_step;
  return outcome;
}

}  // namespace am::run_folder
