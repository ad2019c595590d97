// checkpoint.json: what a checkpoint is, and how it came to be.
//
//   const CheckpointInfo info = read_checkpoint_info("checkpoints/step-100");
//   info.samples;                // 1600 sequences were read
//   info.lineage.back().job;     // the job that wrote it
//
// What follows the model's type may be absent; it is unknown then.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/mesh/layout.h"

namespace am::run_folder {

// 1 and 2 were folders of a safetensors file a rank.
inline constexpr int kCheckpointVersion = 3;
inline constexpr const char* kInfoFile = "checkpoint.json";

// A job, and the step from which it went on with what the job before it had written.
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
  // Shared by all files of one save, so that those of two are not taken for one checkpoint. Empty:
  // unknown.
  std::string save_id;
  // The jobs that led here, the oldest first; the last one wrote this. Empty: unknown.
  std::vector<JobStep> lineage;
  // Sequences that training has read: the place in the data's order. Nothing: unknown.
  std::optional<int64_t> samples;
  int64_t skipped_steps = 0;  // of `step`: those without an update
  // Of float16 training: optim::GradScaler's state.
  struct LossScale {
    double scale = 0.0;
    int64_t growth_tracker = 0;
  };
  std::optional<LossScale> loss_scale;
  // What was trained on what, by the plan's keys: train/run_facts.h. Null: unknown.
  Json facts;
};

std::string to_json_text(const CheckpointInfo& info);
// `file` is only named. Throws Error(kFormat) that names it when it is not a checkpoint's of a
// version that is known.
CheckpointInfo parse_checkpoint_info(const std::string& text, const std::string& file);

bool is_checkpoint(const std::filesystem::path& folder);
// Throws Error(kIo) when it cannot be read, otherwise as parse_checkpoint_info.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& folder);

struct Refusal {
  std::string message;
  std::string help;
};
// Why a job cannot go on from `path`, by its files' names; nothing for a checkpoint of am-run.
std::optional<Refusal> why_no_checkpoint(const std::filesystem::path& path);

}  // namespace am::run_folder
