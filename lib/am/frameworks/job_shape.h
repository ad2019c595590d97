// Code that several frameworks use. JobShape contains the values of a plan that exports write. The
// functions convert names of schedules, and set a plan's pipeline and batches during an import.
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
  const config::FSDP2Config* fsdp2;  // these four pointers are null for other strategies
  const config::MegatronFSDPConfig* megatron;
  const config::DDPConfig* ddp;
  const config::MegatronConfig* megatron_lm;
  // Options of fsdp2. For another strategy, all options have their default values.
  const config::FSDP2Config& options;
  int64_t global_batch;  // sequences per step
  int64_t microbatches;  // micro-batches in one run of the schedule; 1 without a pipeline
  // Folder of the model's config.json. A relative model.path is resolved against the plan's folder.
  std::string model;

  config::ActivationCheckpointing checkpointing;

  // Returns fsdp2's reshard_after_forward if it is a boolean; nullopt if it is a number of ranks or
  // not set.
  std::optional<bool> reshards() const;
  bool checkpoints() const { return checkpointing != config::ActivationCheckpointing::kOff; }
  bool checkpoints_selectively() const {
    return checkpointing == config::ActivationCheckpointing::kSelective;
  }
  // Returns the plan's value of a key, for example "train.seed", as JSON. Returns nullopt if the
  // plan's strategy does not have the key.
  std::optional<Json> value(std::string_view key) const;

  int64_t world() const { return mesh.world_size(); }
  // Returns the number of sequences that a data-parallel rank processes in one run of the
  // pipeline's schedule; without a pipeline, in one micro-batch.
  int64_t local_batch() const { return plan.train.micro_batch_size * microbatches; }
  int64_t nodes() const;
  // Returns the path of the plan's custom schedule (a CSV file); nullopt for any other schedule.
  std::optional<std::string> schedule_file() const;
  // Returns the number of ranks per node: the plan's mesh.ranks_per_node or, if this number does
  // not divide the world size, the largest smaller divisor of the world size.
  int64_t ranks_per_node() const;
  // For each stage: the number of its first layer, and the number of its last layer plus 1. Layers
  // are numbered from 0.
  std::vector<std::pair<int64_t, int64_t>> stages;
};

// Returns the name in lower case and without `_` and `-`, for example "fusedadam" for "Fused_Adam".
std::string plain_word(std::string_view name);

// Returns PyTorch's name of a plan's schedule, for example "1F1B" for "1f1b". For a custom schedule
// (a CSV file), returns the name of PyTorch's class that runs schedule files.
std::string torch_schedule_name(std::string_view ours);
// Returns a plan's name of a schedule; nullopt for an unknown name. `any`: the plan's or PyTorch's
// name, in upper or lower case.
std::optional<std::string> our_schedule_name(std::string_view any);

// Keys of a framework's file that configure the pipeline, for set_pipeline(). A member of type
// string_view is a key of the file.
struct PipelineKeys {
  std::string_view schedule;          // key of the schedule's name
  std::string_view file;              // key of the path of a custom schedule (a CSV file)
  const char* absent;                 // schedule if the file has neither `schedule` nor `file`
  const char* known;                  // hint for an unknown schedule: the known names
  std::string_view modules;           // key of the lists of modules, one per stage
  std::string_view layers_per_stage;  // key of the number of layers per stage
  // Key with the value "up" or "down": how the number of stages is rounded to a multiple of pp.
  std::string_view round = {};
  // When layers are divided over stages, the embedding counts as `first_less` layers of the first
  // stage, and the head as `last_less` layers of the last stage.
  int64_t first_less = 0;
  int64_t last_less = 0;
};
// Sets the plan's schedule and stages. `pp`: number of pipeline ranks. If the file contains lists
// of modules, these lists determine the stages. Otherwise, layers are divided evenly, and the
// setting layers_per_stage determines the number of stages. Without layers_per_stage, each rank has
// default_virtual_stages() stages. If the model is unknown, layers_per_stage is recorded as lost.
void set_pipeline(PlanBuilder& builder, const PipelineKeys& keys, int64_t pp);
// Returns the default number of stages per rank: 1 for "1f1b" and "gpipe", 2 for other schedules.
int64_t default_virtual_stages(std::string_view schedule);

// Sets the plan's virtual_stages from the setting `path`, which contains one list of module names
// per stage. Also sets split_points if the stages differ from automesh's even division of the
// layers. A module is a layer if it is named, for example, "layers.3" or "model.layers.3".
void set_stages(PlanBuilder& builder, std::string_view path, int64_t pp);
// Overload for known stages. `layers`: the number of layers of each stage. Errors point to the
// setting `path`.
void set_stages(PlanBuilder& builder, const std::vector<int64_t>& layers, int64_t pp,
                std::string_view path);

// Sets pipeline.microbatches and train.micro_batch_size. `local`: number of sequences in one run of
// the pipeline's schedule. `micro`: number of sequences in a micro-batch. Without a pipeline, sets
// only train.micro_batch_size, to `local`. Errors point to the setting `path`.
void set_batches(PlanBuilder& builder, int64_t local, int64_t micro, int64_t pp,
                 std::string_view path);

}  // namespace am::frameworks
