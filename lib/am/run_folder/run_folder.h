// The run folder, in which a job stores its plan, metrics, logs and checkpoints.
//
//   RunFolder run = RunFolder::create("runs/first");
//   run.plan_file();                      // runs/first/plan.toml
//   run.log(3);                           // runs/first/logs/rank-3.log
//   run.checkpoint(200);                  // runs/first/checkpoints/step-200
//   list_checkpoints(run.checkpoints());  // all step-N folders, complete or not
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::run_folder {

// Returns the name of a rank's log, for example "rank-3.log".
std::string rank_log_name(int64_t rank);

class RunFolder {
 public:
  // Accesses no file; the object only computes paths.
  explicit RunFolder(std::filesystem::path root);
  // Creates the folder with its subfolders logs/ and checkpoints/. Writes a small file to check
  // that the folder is writable, and removes it. Throws Error(kIo) if the folder cannot be created
  // or written, for example because of permissions, a full disk, a file with the folder's name, or
  // another user's symbolic link (base/file.h).
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
  // Folder with the states saved after a failed step, in subfolders step-N (N: number of finished
  // steps). Written by am-run --on-failure dump, and by the command `save` of am-repl.
  std::filesystem::path failure() const { return root_ / "failure"; }

 private:
  std::filesystem::path root_;
};

struct CheckpointFolder {
  int64_t step = 0;  // number of finished steps
  std::filesystem::path path;
};

// Returns the name of a checkpoint's folder, for example "step-200".
std::string checkpoint_name(int64_t step);
// Returns the step in a checkpoint folder's name, for example 200 for "step-200". Returns nullopt
// if the name does not have this form.
std::optional<int64_t> checkpoint_step(std::string_view name);
// Returns the folders named step-N in `folder`, by ascending step. Ignores all other entries, such
// as files and step-8.tmp. Returns none if `folder` does not exist. Throws Error(kIo) if `folder`
// cannot be read.
std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& folder);

}  // namespace am::run_folder
