// What am-repl's TARGET is.
//
//   weights at rest, whoever wrote them               kWeights
//   an am-run run folder whose job runs               kJob
//   tcp://HOST:PORT of a job                          kJob
//   any other, or its checkpoints/                    kWeights: its newest whole checkpoint
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
  std::string note;  // what was opened in the target's place; empty: the target itself
  std::optional<control::JobAddress> job;  // of kJob
};

// `token`: the file that a job at tcp:// is shown. Throws Error(kIo) for a path that is not there,
// Error(kFormat) for one that is none of the above; its hint lists what was looked for. Throws
// Error(kUsage) that says how to get to a job of another machine.
Target find_target(const std::filesystem::path& path, const std::filesystem::path& token = {});

}  // namespace am::inspect
