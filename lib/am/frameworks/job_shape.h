// Shared by all writers (facts of a plan) and readers (lists of stages).
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
  const config::FSDP2Config* fsdp2;  // null: another strategy
  const config::MegatronFSDPConfig* megatron;
  const config::DDPConfig* ddp;
  const config::FSDP2Config& options;  // fsdp2's; for another strategy the defaults: all off
  int64_t global_batch;                // sequences per step
  int64_t microbatches;                // per pipeline round; 1 without a pipeline
  std::string model;  // the config's folder, relative to the current folder if it is so in the plan

  config::ActivationCheckpointing checkpointing;

  // fsdp2's reshard_after_forward; nothing if it is a size or not set.
  std::optional<bool> reshards() const;
  bool checkpoints() const { return checkpointing != config::ActivationCheckpointing::kOff; }
  bool checkpoints_selectively() const {
    return checkpointing == config::ActivationCheckpointing::kSelective;
  }
  // Returns a value as written in a plan file, by key: "train.seed"; nothing for a key that the
  // plan's strategy does not have.
  std::optional<Json> value(std::string_view key) const;

  int64_t world() const { return mesh.world_size(); }
  // Sequences of one pipeline round on a rank, after which gradients may be reduced.
  int64_t local_batch() const { return plan.train.micro_batch_size * microbatches; }
  int64_t nodes() const;
  // Path of a custom (CSV) schedule.
  std::optional<std::string> schedule_file() const;
  int64_t ranks_per_node() const;
  // {first layer, one past the last} of each stage.
  std::vector<std::pair<int64_t, int64_t>> stages;
};

// Lower case, without separators: "Fused_Adam" becomes "fusedadam".
std::string plain_word(std::string_view name);

// PyTorch's name of a schedule: "1f1b" becomes "1F1B". For a CSV file, the class that runs it.
std::string torch_schedule_name(std::string_view ours);
// Accepts either spelling, in any case; returns nothing for an unknown name.
std::optional<std::string> our_schedule_name(std::string_view any);

// Sets pipeline.schedule from the name at `schedule`, and the stages from the lists of modules at
// `modules`. Without lists, `layers_per_stage` gives the number of stages, rounded according to
// `round`; otherwise there is one stage per rank, or two for interleaved schedules. Layers are
// divided evenly if the model is known; otherwise settings that depend on its layers are lost.
struct PipelineKeys {
  std::string_view schedule;
  std::string_view file;  // of a custom (CSV) schedule
  const char* absent;     // schedule of a file that names none
  const char* known;      // names to suggest for an unknown one
  std::string_view modules;
  std::string_view layers_per_stage;
  std::string_view round = {};  // "up" or "down" to a multiple of the pipeline's ranks
  // Numbers of layers as which the embedding and the head count.
  int64_t first_less = 0;
  int64_t last_less = 0;
};
void set_pipeline(PlanBuilder& builder, const PipelineKeys& keys, int64_t pp);
int64_t default_virtual_stages(std::string_view schedule);

// Sets split_points and virtual_stages from lists of module names, one list per stage. "PREFIX.N"
// are layers ("layers.3", "model.layers.3").
void set_stages(PlanBuilder& builder, std::string_view path, int64_t pp);
// Overload for the number of layers of each stage.
void set_stages(PlanBuilder& builder, const std::vector<int64_t>& layers, int64_t pp,
                std::string_view path);

// Sets pipeline.microbatches and train.micro_batch_size from the sequences of a pipeline round
// (`local`) and of a micro-batch (`micro`).
void set_batches(PlanBuilder& builder, int64_t local, int64_t micro, int64_t pp,
                 std::string_view path);

}  // namespace am::frameworks
