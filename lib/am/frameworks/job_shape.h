// Code that the frameworks share: JobShape has the values of a plan that all exports write; the
// functions below convert names of schedules and set a plan's pipeline during an import.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/frameworks/exchange.h"
#include "am/frameworks/plan_builder.h"

namespace am::frameworks {

struct JobShape {
  explicit JobShape(const ExportInput& input);

  const config::Plan& plan;
  mesh::MeshSizes mesh;
  const config::FSDP2Config* fsdp2;  // null if the plan has another strategy; likewise the next two
  const config::MegatronFSDPConfig* megatron;
  const config::DDPConfig* ddp;
  // Options of fsdp2. For another strategy they have their defaults, which turn everything off.
  const config::FSDP2Config& options;
  int64_t global_batch;  // sequences per step
  int64_t microbatches;  // micro-batches in one run of the schedule; 1 without a pipeline
  // Folder of the model's config.json. Relative to the current folder if the plan's path is.
  std::string model;

  config::ActivationCheckpointing checkpointing;

  // Returns fsdp2's reshard_after_forward if it is a boolean; nullopt if it is a size or not set.
  std::optional<bool> reshards() const;
  bool checkpoints() const { return checkpointing != config::ActivationCheckpointing::kOff; }
  bool checkpoints_selectively() const {
    return checkpointing == config::ActivationCheckpointing::kSelective;
  }
  // Returns the plan's value of a key, for example "train.seed", as written in a plan file. Returns
  // nullopt for a key that the plan's strategy does not have.
  std::optional<Json> value(std::string_view key) const;

  int64_t world() const { return mesh.world_size(); }
  // Returns the number of sequences that a rank processes in one run of the pipeline's schedule,
  // after which gradients may be reduced.
  int64_t local_batch() const { return plan.train.micro_batch_size * microbatches; }
  int64_t nodes() const;
  // Returns the path of the plan's custom schedule (a CSV file); nullopt if it has none.
  std::optional<std::string> schedule_file() const;
  int64_t ranks_per_node() const;
  // The first layer of each stage, and the number after its last layer.
  std::vector<std::pair<int64_t, int64_t>> stages;
};

// Returns the name in lower case, without `_` and `-`; for example "fusedadam" for "Fused_Adam".
std::string plain_word(std::string_view name);

// Returns PyTorch's name of a plan's schedule, for example "1F1B" for "1f1b". For a custom schedule
// (a CSV file), returns the name of PyTorch's class that runs such a file.
std::string torch_schedule_name(std::string_view ours);
// Returns a plan's name of a schedule. `any`: the plan's or PyTorch's name, in upper or lower case.
// Returns nullopt for an unknown name.
std::optional<std::string> our_schedule_name(std::string_view any);

// A framework's settings of the pipeline, for set_pipeline(). Members of type string_view are keys
// of the imported file.
struct PipelineKeys {
  std::string_view schedule;          // key of the schedule's name
  std::string_view file;              // key of the path of a custom schedule (a CSV file)
  const char* absent;                 // the schedule if the file has none of these two keys
  const char* known;                  // hint with the known names, for an unknown name
  std::string_view modules;           // key of the lists of modules, one per stage
  std::string_view layers_per_stage;  // key of the number of layers per stage
  // Key of "up" or "down": how the number of stages is rounded to a multiple of the pp ranks.
  std::string_view round = {};
  // Numbers of layers as which the embedding (on the first stage) and the head (on the last stage)
  // count when layers are divided over stages.
  int64_t first_less = 0;
  int64_t last_less = 0;
};
// Sets the plan's schedule and stages. The lists of modules determine the stages if the file has
// them. Otherwise the layers per stage determine the number of stages; without them there is one
// stage per rank, or two for interleaved schedules. Layers are then divided evenly. If the model is
// unknown, settings that depend on its layers are recorded as lost.
void set_pipeline(PlanBuilder& builder, const PipelineKeys& keys, int64_t pp);
int64_t default_virtual_stages(std::string_view schedule);

// Sets split_points and virtual_stages from lists of module names, one list per stage, which are
// the setting `path`. Names such as "layers.3" and "model.layers.3" are layers.
void set_stages(PlanBuilder& builder, std::string_view path, int64_t pp);
// Overload for stages given by their numbers of layers. `path`: the setting that errors point to.
void set_stages(PlanBuilder& builder, const std::vector<int64_t>& layers, int64_t pp,
                std::string_view path);

// Sets pipeline.microbatches and train.micro_batch_size from the number of sequences in one run of
// the pipeline's schedule (`local`) and in a micro-batch (`micro`). `path`: the setting that errors
// point to.
void set_batches(PlanBuilder& builder, int64_t local, int64_t micro, int64_t pp,
                 std::string_view path);

}  // namespace am::frameworks
