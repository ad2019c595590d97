// The run folder: a job's plan, metrics, logs and checkpoints.
//
//   RunFolder run = RunFolder::create("runs/first");
//   run.plan_file();                      // runs/first/plan.toml
//   run.log(3);                           // runs/first/logs/rank-3.log
//   run.checkpoint(200);                  // runs/first/checkpoints/step-200
//   list_checkpoints(run.checkpoints());  // the step-N folders; complete ones: step_folders.h
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::run_folder {

// "rank-3.log"
std::string rank_log_name(int64_t rank);

class RunFolder {
 public:
  // Only computes paths; accesses no file.
  explicit RunFolder(std::filesystem::path root);
  // Creates the folder with its logs/ and checkpoints/, and checks that it is writable with a small
  // synced file. Throws Error(kIo) that names the path and the reason: no permission, a file of
  // that name, a full disk, another user's link (base/file.h).
  static RunFolder create(const std::filesystem::path& root);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path plan_file() const { return root_ / "plan.toml"; }
  std::filesystem::path metrics_file() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path result_file() const { return root_ / "result.json"; }
  std::filesystem::path control() const { return root_ / "control"; }
  std::filesystem::path logs() const { return root_ / "logs"; }
  std::filesystem::path log(int64_t rank) const;
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path checkpoint(int64_t step) const;

 private:
  std::filesystem::path root_;
};

struct CheckpointFolder {
  int64_t step = 0;  // finished steps
  std::filesystem::path path;
};

// "step-200"
std::string checkpoint_name(int64_t step);
// Returns 200 for "step-200"; nothing for any other name.
std::optional<int64_t> checkpoint_step(std::string_view name);
// Returns the folders named step-N in `folder`, by ascending step; ignores all other entries
// (step-8.tmp, files). Returns none if `folder` does not exist. Throws Error(kIo) if it cannot be
// read.
std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& folder);

}  // namespace am::run_folder
