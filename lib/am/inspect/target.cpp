#include "am/inspect/target.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/frameworks/open_weights.h"
#include "am/inspect/runs.h"
#include "am/run_folder/job_record.h"
#include "am/run_folder/step_folders.h"

namespace am::inspect {

namespace fs = std::filesystem;

namespace {

constexpr const char* kKinds =
    "looked for: *.safetensors (Hugging Face), .metadata (torch.distributed.checkpoint, "
    "torchtitan, "
    "OLMo-core, Megatron, NeMo AutoModel), "
    "pytorch_model.bin or one *.pt, *.pth, *.bin, *.ckpt (torch.save), "
    "checkpoint.json (am-run's step-N), "
    "checkpoints/step-N (a run folder), "
    "or a plan (*.toml)";

// Returns the newest complete checkpoint in the folder, which am-run would resume from.
// Target::note lists newer checkpoints that are incomplete. Returns nullopt if the folder has no
// checkpoints. Throws Error(kFormat) if all its checkpoints are incomplete.
std::optional<Target> newest_in(const fs::path& folder) {
  const auto newest = run_folder::newest_complete(folder);
  const std::string skipped = join(newest.skipped, "; ");
  if (newest.found) {
    return Target{TargetKind::kWeights,
                  newest.found->path,
                  cat(folder.string(), ": opening its newest checkpoint, ",
                      newest.found->path.filename().string(),
                      skipped.empty() ? "" : cat("; skipped: ", skipped)),
                  {}};
  }
  if (skipped.empty()) return std::nullopt;
  throw Error(ErrorKind::kFormat, cat(folder.string(), ": no checkpoint is complete: ", skipped));
}

// Returns the job that is running in the run folder; nullopt if no job is running. Throws
// Error(kUsage) if the job runs on another machine and cannot be reached over TCP.
std::optional<Target> job_in(const fs::path& folder) {
  const auto job = control::find_job(run_folder::RunFolder(folder));
  if (!job) return std::nullopt;
  if (job->here) return Target{TargetKind::kJob, folder, {}, job->address};
  if (job->reachable()) {
    control::JobAddress address = job->address;
    address.socket.clear();
    return Target{TargetKind::kJob, folder,
                  cat(folder.string(), ": its job runs on ", address.host,
                      "; attaching over TCP to ", address.tcp->text()),
                  std::move(address)};
  }
  throw Error(ErrorKind::kUsage,
              cat(folder.string(), ": its job runs on ", job->address.host,
                  ", and am-repl can attach to it only on that machine"),
              cat(control::way_to(job->address, folder), "; to open its checkpoints: am-repl ",
                  (folder / "checkpoints").string()));
}

// Returns a note for a plan that lies in a run folder: opening the plan shows the initial model,
// and not the trained one. Returns an empty string if the run has no complete checkpoint.
std::string run_note(const fs::path& plan) {
  const fs::path folder = fs::absolute(plan).parent_path();
  const fs::path checkpoints = folder / "checkpoints";
  const auto newest = run_folder::newest_complete(checkpoints).found;
  if (!newest) return {};
  return cat(plan.string(), ": this is the plan of a run; the run's checkpoints are in ",
             (plan.parent_path() / "checkpoints").string(), ", the newest is ",
             newest->path.filename().string());
}

// Returns whether the path is probably a run folder, weights or a plan; false if the path cannot be
// read.
bool looks_openable(const fs::path& path) {
  try {
    if (!fs::is_directory(path)) return path.extension() == ".toml";
    return fs::is_directory(path / "checkpoints") || frameworks::is_tensor_source(path);
  } catch (const std::exception&) {  // no access, or the contents do not match the file's name
    return false;
  }
}

// Returns a hint that lists the first results of targets_in(); empty if there are no results.
std::string openable_in(const fs::path& folder) {
  constexpr size_t kShown = 6;
  std::vector<std::string> names;
  for (const fs::path& path : targets_in(folder)) names.push_back(path.string());
  if (names.empty()) return {};
  const size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  return cat("these can be opened: ", join(names, ", "),
             more == 0 ? "" : cat(" and ", more, " more"));
}

// Returns a hint with the command that opens the newest state that was saved after a failed step,
// in RUN/failure; empty if there is no complete state. am-run saves this state with --on-failure
// dump. With --on-failure hold, am-repl's command `save` saves the state while the job is held.
std::string failure_hint(const run_folder::RunFolder& run) {
  const auto saved = run_folder::newest_complete(run.failure()).found;
  return saved ? cat("am-repl ", saved->path.string(), " opens the state at the failure")
               : std::string();
}

// Throws Error(kFormat) for the folder of a run that has saved no checkpoint. The message contains
// the reason why the run's job failed, if it is recorded.
[[noreturn]] void throw_without_checkpoint(const run_folder::RunFolder& run) {
  const std::string root = run.root().string();
  std::string message = cat(root, ": this run has saved no checkpoint");
  const auto record = run_folder::read_record(run);
  const Json cause = record ? record->cause : Json();
  if (cause.contains("message") && cause["message"].is_string()) {
    message += cat("; its job failed: ", cause["message"].get<std::string>());
  }
  const std::string failure = failure_hint(run);
  throw Error(
      ErrorKind::kFormat, message,
      cat(failure, failure.empty() ? "" : "; ", "am-repl ", root,
          " -c metrics shows its steps; am-repl ", run.plan_file().string(), " opens its plan"));
}

Target recognize(const fs::path& path) {
  if (!fs::exists(path)) {
    throw Error(ErrorKind::kIo, cat(path.string(), ": no such file or folder"));
  }
  if (fs::is_directory(path)) {
    if (auto job = job_in(path)) return *std::move(job);
    if (frameworks::is_tensor_source(path)) return {TargetKind::kWeights, path, {}, {}};
    if (auto newest = newest_in(path / "checkpoints")) {
      const std::string failure = failure_hint(run_folder::RunFolder(path));
      if (!failure.empty()) newest->note += cat("; ", failure);
      return *newest;
    }
    if (const auto newest = newest_in(path)) return *newest;
    if (const auto run = run_of(path)) throw_without_checkpoint(*run);
    const std::string below = openable_in(path);
    throw Error(ErrorKind::kFormat,
                cat(path.string(), ": this folder itself holds no run, checkpoint or weights"),
                below.empty() ? kKinds : below);
  }
  if (path.extension() == ".toml") return {TargetKind::kPlan, path, run_note(path), {}};
  if (frameworks::is_tensor_source(path)) return {TargetKind::kWeights, path, {}, {}};
  if (path.extension() == ".distcp") {
    throw Error(
        ErrorKind::kFormat,
        cat(path.string(),
            ": this file of a checkpoint belongs to one rank and holds only parts of tensors"),
        "open the checkpoint's folder, which has the files of all ranks and their metadata");
  }
  throw Error(ErrorKind::kFormat, cat(path.string(), ": neither a plan nor weights"), kKinds);
}

}  // namespace

std::vector<fs::path> targets_in(const fs::path& folder) {
  constexpr size_t kMostEntries = 1000;  // largest number of entries that are examined
  std::vector<fs::path> found;
  size_t entries = 0;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    if (++entries > kMostEntries) break;
    if (looks_openable(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return natural_less(a.string(), b.string());
  });
  return found;
}

Target find_target(const fs::path& path, const fs::path& token) {
  constexpr std::string_view kTcp = "tcp://";
  if (starts_with(path.native(), kTcp)) {
    if (token.empty()) {
      throw Error(ErrorKind::kUsage,
                  cat(path.string(), ": attaching over TCP needs the job's token"),
                  "give --token FILE, a copy of RUN/control/token that only you can read");
    }
    control::JobAddress address;
    address.tcp = control::parse_tcp(std::string_view(path.native()).substr(kTcp.size()));
    address.token = token;
    return {TargetKind::kJob, path, {}, std::move(address)};
  }
  try {
    return recognize(path);
  } catch (const fs::filesystem_error& error) {  // for example if permission is denied
    throw Error(ErrorKind::kIo, cat(path.string(), ": ", error.code().message()));
  }
}

}  // namespace am::inspect
