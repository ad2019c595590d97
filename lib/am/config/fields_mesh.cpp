// Defines the keys of the plan file's sections [model] and [mesh].
#include "am/config/field_builder.h"

namespace am::config {
namespace {

// Largest legal mesh size: more ranks than any cluster has. layout::resolve_mesh() limits the
// product tp_size * cp_size * pp_size * dp_size to the same number.
constexpr int64_t kMostRanks = int64_t{1} << 20;

}  // namespace

void add_model_fields(std::vector<FieldSpec>& out) {
  FieldBuilder model(
      "model", [](auto& plan) -> auto& { return plan.model; }, out);
  using S = ModelSection;
  FieldSpec& path = model.add("path", &S::path, Text{Text::Empty::kRefused, "path"},
                              "A Hugging Face config.json, the folder that holds one, or a model's "
                              "name: llama-3.1-8b, or org/name from the hub's cache.");
  path.required = true;
  path.is_path = is_any_path;
  model
      .add("weights", &S::weights, Text{Text::Empty::kRefused, "\"auto\", \"none\" or a path"},
           "auto: load the *.safetensors next to the config, or initialise the model if there are "
           "none (weights in PyTorch's pickle format there are an error); none: initialise the "
           "model; or a path to weights.")
      .is_path = is_path_unless_auto_or_none;
  model.add("dtype", &S::dtype, dtype_choice(), "Storage dtype of the parameters.");
  model.add("seed", &S::seed, Integer{0},
            "Initialisation seed. The values do not depend on the layout.");
  model.add("freeze_params", &S::freeze_params, Texts{},
            "Parameters that are not trained, as globs over their names: "
            "\"model.embed_tokens.*\".");
}

void add_mesh_fields(std::vector<FieldSpec>& out) {
  FieldBuilder mesh(
      "mesh", [](auto& plan) -> auto& { return plan.mesh; }, out);
  using S = MeshSection;
  const Integer size{1, kMostRanks};
  const Integer size_or_zero{0, kMostRanks};
  mesh.add("world_size", &S::world_size, size_or_zero,
           "Number of ranks. 0: the product of the sizes. A launcher must start the same number.");
  mesh.add("dp_size", &S::dp_size, size_or_zero,
           "Data parallel size, replicas included. 0: world_size / (tp_size * cp_size * pp_size).")
      .also = {"data_parallel_size", "data_parallel_shard_degree"};
  mesh.add("dp_replicate_size", &S::dp_replicate_size, size,
           "Number of replicas of the model (hybrid sharding); each is sharded over dp_size / "
           "dp_replicate_size ranks. It must divide dp_size.");
  mesh.add("tp_size", &S::tp_size, size, "Tensor parallel size.").also = {
      "tensor_parallel_size", "tensor_model_parallel_size", "tensor_parallel_degree"};
  mesh.add("pp_size", &S::pp_size, size, "Pipeline parallel size.").also = {
      "pipeline_parallel_size", "pipeline_model_parallel_size", "pipeline_parallel_degree"};
  mesh.add("cp_size", &S::cp_size, size, "Context parallel size.").also = {
      "context_parallel_size", "context_parallel_degree"};
  mesh.add("ep_size", &S::ep_size, size,
           "Expert parallel size. It re-uses the ranks of a pipeline stage.")
      .also = {"expert_parallel_size", "expert_model_parallel_size", "expert_parallel_degree"};
  mesh.add("ranks_per_node", &S::ranks_per_node, size, "Ranks (GPUs) of one machine.");
}

}  // namespace am::config
