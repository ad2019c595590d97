// Determines the kind of the argument TARGET of am-repl.
//
//   weights or a checkpoint of any framework          kWeights
//   a run folder of am-run whose job is running       kJob
//   tcp://HOST:PORT of a running job                  kJob
//   any other run folder, or its checkpoints/         kWeights: its newest complete checkpoint
//   a plan (TOML)                                     kPlan
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/control/place.h"

namespace am::inspect {

enum class TargetKind { kWeights, kPlan, kJob };

struct Target {
  TargetKind kind = TargetKind::kWeights;
  std::filesystem::path path;
  std::string note;  // remark for the user, for example which checkpoint is opened; may be empty
  std::optional<control::JobAddress> job;  // address of the job; set for kJob only
};

// Determines the kind of `path`. `token` is the path of the file with the token of the job; it is
// needed for a target tcp://HOST:PORT only. Throws Error(kIo) if `path` does not exist or cannot be
// read, and Error(kFormat) if it contains nothing that can be opened. Throws Error(kUsage), with
// advice on how to reach the job, if the job runs on another machine and does not accept
// connections over TCP, or if `token` is needed and empty.
Target find_target(const std::filesystem::path& path, const std::filesystem::path& token = {});

// Returns the plans, checkpoints and run folders in a folder, in natural order; empty if the folder
// has none or cannot be read. Examines at most 1,000 entries.
std::vector<std::filesystem::path> targets_in(const std::filesystem::path& folder);

}  // namespace am::inspect
