// Determines what am-repl's TARGET is.
//
//   weights at rest, of any framework                 kWeights
//   an am-run run folder whose job is running         kJob
//   tcp://HOST:PORT of a job                          kJob
//   another run folder, or its checkpoints/           kWeights: its newest complete checkpoint
//   a plan (TOML)                                     kPlan
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "am/control/place.h"

namespace am::inspect {

enum class TargetKind { kWeights, kPlan, kJob };

struct Target {
  TargetKind kind = TargetKind::kWeights;
  std::filesystem::path path;
  std::string note;  // what was opened instead of the target; empty: the target itself
  std::optional<control::JobAddress> job;  // for kJob
};

// `token`: the token file for a job at tcp://. Throws Error(kIo) if the path does not exist,
// Error(kFormat), with a hint that lists the legal kinds, if it is none of the above, and
// Error(kUsage), with advice on how to reach it, for a job on another machine.
Target find_target(const std::filesystem::path& path, const std::filesystem::path& token = {});

}  // namespace am::inspect
