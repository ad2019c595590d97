#include "am/run_folder/job_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "am/base/descriptor.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/json_integer.h"
#include "am/base/text.h"
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
    record.cause = json.value("cause", Json());
    if (json.contains("time")) record.time = job_time_from(json["time"]);
    return record;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

namespace {

std::string to_text(const JobRecord& record) {
  const Json json = {{"job", record.job.id},
                     {"launchers", record.job.launchers},
                     {"first_step", record.first_step},
                     {"steps", record.steps},
                     {"trained_steps", record.steps - record.first_step},
                     {"loss", record.loss ? Json(*record.loss) : Json()},
                     {"stopped", record.stopped},
                     {"ended", record.ended},
                     {"cause", record.cause},
                     {"time", to_record(record.time)}};
  return dump_json(json) + "\n";
}

}  // namespace

void write_record(const RunFolder& run, const JobRecord& record) {
  write_own_file(run.result_file(), to_text(record));
}

void write_record_in_place(const RunFolder& run, const JobRecord& record) {
  // Overwrites the file's existing disk blocks, because a full disk has no blocks for a new file.
  // If the new text is shorter than the file, blanks are added to the text, and the file is not
  // truncated. A single write is then enough, and the file is valid even if the process ends right
  // after the write.
  std::string text = to_text(record);
  const Descriptor file(open_own_file(run.result_file(), O_WRONLY));
  struct stat info {};
  if (file.get() >= 0 && ::fstat(file.get(), &info) == 0) {
    const auto before = static_cast<size_t>(info.st_size);
    if (before > text.size()) text.insert(text.size() - 1, before - text.size(), ' ');
    const auto size = static_cast<ssize_t>(text.size());
    if (::pwrite(file.get(), text.data(), text.size(), 0) == size) return;
  }
  throw Error(ErrorKind::kIo,
              cat(run.result_file().string(), ": cannot write: ", std::strerror(errno)));
}

namespace {

// Returns the last step in metrics.jsonl, which may be later than the last step in result.json.
// Returns 0 if metrics.jsonl has no steps or cannot be read.
int64_t last_step(const RunFolder& run) {
  try {
    const auto lines = observe::read_metrics(run.metrics_file());
    return lines.empty() ? 0 : lines.back().step;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

JobRecord begin_record(const RunFolder& run, const JobIdentity& job, int64_t first_step) {
  JobRecord record;
  record.job = job;
  record.first_step = first_step;
  record.steps = first_step;
  const auto before = read_record(run);
  if (before && before->job.id == job.id) {
    record.first_step = std::min(first_step, before->first_step);
    record.time = before->time;
    record.time.fail_back(first_step, std::max(before->steps, last_step(run)), before->first_step);
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
  if (record->time.until > 0.0) outcome.time = record->time;
  if (!record->ended && std::filesystem::exists(run.metrics_file())) {
    const auto lines = observe::read_metrics(run.metrics_file());
    if (!lines.empty() && lines.back().step > record->steps) {
      outcome.steps = lines.back().step;
      outcome.loss = lines.back().loss;
    }
  }
  outcome.trained_steps = *outcome.steps - record->first_step;
  return outcome;
}

}  // namespace am::run_folder
