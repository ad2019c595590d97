// What every writer asks of a plan, and every reader of a list of stages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/exchange/exchange.h"
#include "am/exchange/plan_builder.h"

namespace am::exchange {

struct JobShape {
  explicit JobShape(const ExportInput& input);

  const config::Plan& plan;
  mesh::MeshSizes mesh;
  const config::FSDP2Config* fsdp2;  // null: another strategy
  const config::MegatronFSDPConfig* megatron;
  const config::DDPConfig* ddp;
  const config::FSDP2Config& options;  // of fsdp2; of another strategy the defaults, which are off
  int64_t global_batch;                // sequences of a step
  int64_t microbatches;                // of one pipeline round; 1 without a pipeline
  std::string model;                   // the config's folder, as the plan has it relative to here

  config::ActivationCheckpointing checkpointing;

  // fsdp2's reshard_after_forward; nothing where it is a size or left to its default.
  std::optional<bool> reshards() const;
  bool checkpoints() const { return checkpointing != config::ActivationCheckpointing::kOff; }
  bool checkpoints_selectively() const {
    return checkpointing == config::ActivationCheckpointing::kSelective;
  }
  // As a plan's file holds it, by the key's name: "train.seed"; nothing for a key that the plan's
  // strategy does not have.
  std::optional<Json> value(std::string_view key) const;

  int64_t world() const { return mesh.world_size(); }
  // Sequences that a rank takes before gradients may be reduced: a pipeline round of them.
  int64_t local_batch() const { return plan.train.micro_batch_size * microbatches; }
  int64_t nodes() const;
  // The path of a schedule of one's own.
  std::optional<std::string> schedule_file() const;
  int64_t ranks_per_node() const;
  // {first layer, one past the last} of each stage.
  std::vector<std::pair<int64_t, int64_t>> stages;
};

// Lower case, without what separates words: "Fused_Adam" is "fusedadam".
std::string plain_word(std::string_view name);

// Our name of a schedule and PyTorch's: "1f1b", "1F1B". Of a file the class that runs such.
std::string torch_schedule_name(std::string_view ours);
// Either spelling, in any case; nothing for an unknown name.
std::optional<std::string> our_schedule_name(std::string_view any);

// Sets pipeline.schedule from the name at `schedule`, and its stages from the lists of modules at
// `modules`. Without lists there are as many stages as `layers_per_stage` makes, rounded as `round`
// says; without that too one a rank, or two for schedules of several. Layers are spread over them
// where the model is known; what follows from its layers is lost where it is not.
struct PipelineKeys {
  std::string_view schedule;
  std::string_view file;  // of a schedule of one's own
  const char* absent;     // the schedule of a file that names none
  const char* known;      // names to offer in the place of an unknown one
  std::string_view modules;
  std::string_view layers_per_stage;
  std::string_view round = {};  // "up" or "down" to a multiple of the pipeline's ranks
  // Layers that the embedding and the head count as.
  int64_t first_less = 0;
  int64_t last_less = 0;
};
void set_pipeline(PlanBuilder& builder, const PipelineKeys& keys, int64_t pp);
int64_t default_virtual_stages(std::string_view schedule);

// Sets split_points and virtual_stages from lists of module names, of which "PREFIX.N" are the
// layers ("layers.3", "model.layers.3"), one list a stage.
void set_stages(PlanBuilder& builder, std::string_view path, int64_t pp);
// The same from the number of layers of each stage.
void set_stages(PlanBuilder& builder, const std::vector<int64_t>& layers, int64_t pp,
                std::string_view path);

// pipeline.microbatches and train.micro_batch_size from sequences of a round and of a micro-batch.
void set_batches(PlanBuilder& builder, int64_t local, int64_t micro, int64_t pp,
                 std::string_view path);

}  // namespace am::exchange
