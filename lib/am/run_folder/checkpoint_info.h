// checkpoint.json, the file of each checkpoint that describes the checkpoint and its history.
//
//   const CheckpointInfo info = read_checkpoint_info("checkpoints/step-100");
//   info.samples;                // 1600: number of sequences that training has read
//   info.lineage.back().job;     // the id of the job that wrote the checkpoint
//
// A checkpoint.json may lack the fields that follow `model_type` in CheckpointInfo, which then have
// their default values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/mesh/layout.h"

namespace am::run_folder {

// Version of the checkpoint format. Versions 1 and 2 had one safetensors file per rank.
inline constexpr int kCheckpointVersion = 3;
inline constexpr const char* kInfoFile = "checkpoint.json";

// A job in the history of a checkpoint. `job`: the job's id. `from_step`: step of the checkpoint
// from which the job resumed.
struct JobStep {
  std::string job;
  int64_t from_step = 0;

  bool operator==(const JobStep&) const = default;
};

struct CheckpointInfo {
  int64_t step = 0;  // number of finished optimizer steps
  int64_t world_size = 1;
  mesh::MeshSizes mesh;
  std::string model_type;
  // Random id that all files of one save contain, so that a mix of files of several saves is
  // detected. Empty: unknown.
  std::string save_id;
  // The jobs that trained the model up to this checkpoint, oldest first; the last job wrote the
  // checkpoint. Empty: unknown.
  std::vector<JobStep> lineage;
  // Number of sequences that training has read, which is its position in the data. nullopt:
  // unknown.
  std::optional<int64_t> samples;
  int64_t skipped_steps = 0;  // number of finished steps whose update was skipped
  // State of optim::GradScaler; only in float16 training.
  struct LossScale {
    double scale = 0.0;
    int64_t growth_tracker = 0;
  };
  std::optional<LossScale> loss_scale;
  // Validation losses up to this step; nullopt before the first validation.
  struct Validated {
    std::optional<double> loss;  // after this step; nullopt: no validation ran then
    double best = 0.0;           // lowest loss
    int64_t since_best = 0;      // number of validations since the lowest loss
    std::string data = {};       // identifies the validation data
  };
  std::optional<Validated> validated;
  // Object with the plan's keys and values that identify the model and the data
  // (train/run_facts.h). Null: unknown.
  Json facts;
};

// Returns the text of the checkpoint.json with these values.
std::string to_json_text(const CheckpointInfo& info);
// Parses a checkpoint.json. Throws Error(kFormat) if the text is invalid or has another version
// than kCheckpointVersion. `file`: name of the file, for messages only.
CheckpointInfo parse_checkpoint_info(const std::string& text, const std::string& file);

// Returns whether the folder contains a checkpoint.json.
bool is_checkpoint(const std::filesystem::path& folder);
// Reads the checkpoint.json of a checkpoint folder. Throws Error(kIo) if it cannot be read, and
// Error(kFormat) like parse_checkpoint_info().
CheckpointInfo read_checkpoint_info(const std::filesystem::path& folder);

struct Refusal {
  std::string message;
  std::string help;
};
// Returns why a job cannot resume from `path`: nothing exists there, or `path` is a folder that
// contains checkpoints (a run folder, or its folder checkpoints/). Returns nullopt otherwise. Does
// not check the contents: a folder without a checkpoint.json may be a checkpoint of another
// program.
std::optional<Refusal> why_no_checkpoint(const std::filesystem::path& path);

}  // namespace am::run_folder
