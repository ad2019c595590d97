// Determines what kind of thing am-repl's TARGET is.
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

#include "am/control/place.h"

namespace am::inspect {

enum class TargetKind { kWeights, kPlan, kJob };

struct Target {
  TargetKind kind = TargetKind::kWeights;
  std::filesystem::path path;
  std::string note;  // text about what is opened if that is not the path itself; otherwise empty
  std::optional<control::JobAddress> job;  // address of the job; set for kJob only
};

// Finds out what the path is. `token` is the file with the token of a job at tcp://. Throws
// Error(kIo) if the path does not exist; Error(kFormat), with a hint that lists the legal kinds, if
// it is none of the above; and Error(kUsage), with advice on how to reach the job, if it runs on
// another machine.
Target find_target(const std::filesystem::path& path, const std::filesystem::path& token = {});

}  // namespace am::inspect
