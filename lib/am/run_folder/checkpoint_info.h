// checkpoint.json: the description of a checkpoint and its history.
//
//   const CheckpointInfo info = read_checkpoint_info("checkpoints/step-100");
//   info.samples;                // 1600 sequences were read
//   info.lineage.back().job;     // the job that wrote it
//
// Files may lack all fields after the model type; their values are then unknown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/mesh/layout.h"

namespace am::run_folder {

// Versions 1 and 2 were folders with one safetensors file per rank.
inline constexpr int kCheckpointVersion = 3;
inline constexpr const char* kInfoFile = "checkpoint.json";

// A job, and the step at which it resumed from a checkpoint of the previous job in the lineage.
struct JobStep {
  std::string job;
  int64_t from_step = 0;

  bool operator==(const JobStep&) const = default;
};

struct CheckpointInfo {
  int64_t step = 0;  // finished optimizer steps
  int64_t world_size = 1;
  mesh::MeshSizes mesh;
  std::string model_type;
  // Shared by all files of one save, to detect files of different saves. Empty: unknown.
  std::string save_id;
  // The jobs that led to this checkpoint, oldest first; the last one wrote it. Empty: unknown.
  std::vector<JobStep> lineage;
  // Number of sequences that training has read: the position in the data order. Nothing: unknown.
  std::optional<int64_t> samples;
  int64_t skipped_steps = 0;  // number of the `step` steps that had no update
  // The state of optim::GradScaler in float16 training.
  struct LossScale {
    double scale = 0.0;
    int64_t growth_tracker = 0;
  };
  std::optional<LossScale> loss_scale;
  // The plan's values that identify the model and the data, by key (train/run_facts.h). Null:
  // unknown.
  Json facts;
};

std::string to_json_text(const CheckpointInfo& info);
// Throws Error(kFormat), which names `file`, if the text is not a checkpoint.json of a known
// version. `file` is only used in messages.
CheckpointInfo parse_checkpoint_info(const std::string& text, const std::string& file);

bool is_checkpoint(const std::filesystem::path& folder);
// Throws Error(kIo) if the file cannot be read, otherwise as parse_checkpoint_info.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& folder);

struct Refusal {
  std::string message;
  std::string help;
};
// Returns why a job cannot resume from `path`, judged only by the names of its files; nothing if
// `path` has the files of a checkpoint of am-run.
std::optional<Refusal> why_no_checkpoint(const std::filesystem::path& path);

}  // namespace am::run_folder
