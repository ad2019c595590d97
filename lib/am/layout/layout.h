// Computes from a plan and a model config which part of each parameter every rank holds. am-plan
// and the runtime call the same functions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/mesh/shard.h"
#include "am/model/inventory.h"
#include "am/model/tp_plan.h"

namespace am::layout {

// Returns the mesh sizes of a plan. `world_size` is the number of ranks that the launcher started,
// or 0 to use the plan's world_size. Adds "mesh.*" errors, and returns nothing if there are any.
// Under ddp and under ZeRO level 0 of megatron_fsdp and megatron, dp_replicate is all of dp;
// otherwise dp_shard = dp / dp_replicate_size.
std::optional<mesh::MeshSizes> resolve_mesh(const config::Plan& plan, int64_t world_size,
                                            Diagnostics& found);

// The known mesh sizes. Even if the sizes contradict the world size, `axes` is set, and so is `dp`
// if the plan contains dp_size. A wrong dp_size thus does not hide errors about tp_size.
struct MeshDraft {
  std::optional<mesh::MeshSizes> sizes;  // result of resolve_mesh
  std::optional<mesh::MeshSizes> axes;   // pp, cp and tp as written, other axes 1; absent if a size
                                         // or the product of the sizes is out of range
  std::optional<int64_t> dp;  // data-parallel size, as written or derived; absent if unknown
};
// Works like resolve_mesh(), but also returns the sizes that are known despite an error.
MeshDraft draft_mesh(const config::Plan& plan, int64_t world_size, Diagnostics& found);

// Returns the number of ranks per node: mesh.ranks_per_node, or fewer if `world_size` ranks do not
// fill cluster.nodes nodes.
int64_t ranks_of_node(const config::Plan& plan, int64_t world_size);

// Returns the TP plan that the strategy's tp_plan key selects: "auto" (the plan of the model's
// family), an inline table, a TOML file with such a table, a family's name, or "libmine.so:symbol",
// which is loaded only if `plan.plugins` allows plugins. megatron_fsdp and megatron use "auto";
// under ddp, the TP plan has no rules. After an error, adds "tp.plan", "tp.plugin" or "tp.style" to
// `found` and returns nothing.
std::optional<model::TpPlan> select_tp_plan(const config::Plan& plan,
                                            const model::ModelConfig& config, Diagnostics& found);

// A box of a parameter that a rank stores. Neighbouring tp ranks may store copies of the box.
struct LocalShard {
  mesh::Box box;       // offset and shape in the global tensor
  int64_t copies = 1;  // number of neighbouring tp ranks that store the box
  int64_t copy = 0;    // this rank's index among those tp ranks
};

// Options of the optimizer for one parameter: those of [optimizer], changed by optimizer.group,
// optimizer.no_decay and lora.loraplus_lr_ratio where these keys apply to the parameter.
struct OptimizerOptions {
  double lr = 1e-3;  // peak learning rate
  double weight_decay = 0.0;

  bool operator==(const OptimizerOptions&) const = default;
};

// Sharding of one parameter. tp or ep shards the parameter first. FSDP then shards the result over
// `shard_group` on `fsdp_dim`. For a fused matrix that tp shards slice by slice, the local tensor
// concatenates several boxes of the global tensor along `tp_dim`.
//
// With ep > 1, routed experts use a different mesh. The ranks of a pipeline stage form a grid with
// the axes ep_shard, ep and etp, from outer to inner:
//
//   ep_shard  FSDP shards each expert along this axis, which includes dp_replicate
//   ep        each ep rank holds ceil(E / ep) of the E experts; the last ranks may hold fewer
//   etp       tensor parallelism of each expert, along its intermediate size; 1 except under the
//             strategy megatron. tp does not cut experts.
//
// Under megatron, experts use this grid even with ep = 1 if tp or etp is greater than 1.
struct ParameterLayout {
  std::string name;
  Shape shape;                // global shape
  std::optional<int> tp_dim;  // dim that is sharded over tp_group; absent if tp_group shards no dim
  std::string_view tp_group = "tp";  // "etp" for routed experts in the grid above
  // Slices of tp_dim, in order, for example the queries, keys and values of a fused matrix. tp
  // shards each slice separately. Empty: the whole dim is one slice without copies.
  std::vector<mesh::DimSlice> tp_slices;
  bool grad_sum_over_tp = false;    // each tp rank holds the full parameter and computes a partial
                                    // sum of its gradient; false if tp = 1
  bool ep_cut = false;              // tensor of all experts, sharded over ep on dim 0
  std::optional<int64_t> ep_owner;  // for one expert's matrix: index along ep of the holders
  // False for router correction biases (buffers) and for matches of model.freeze_params. Under
  // LoRA, true only for the adapters and for lora.modules_to_save.
  bool trainable = true;
  bool quantized = false;  // stored in NF4 (quantization.h): lora.quantize_base
  OptimizerOptions optimizer;
  bool orthogonalized = false;  // updated by Muon: a matrix of a decoder layer
  bool ignored = false;         // ignored by FSDP: not sharded over data-parallel ranks
  // Whether FSDP shards the parameter; each shard is padded to mesh::chunk_length().
  bool fsdp = false;
  int fsdp_dim = 0;  // dim that FSDP shards; if not 0, all shards have equal sizes
  std::string_view shard_group = "dp_shard_cp";  // group over which FSDP shards; "ep_shard" for
                                                 // experts under expert parallelism
  int unit = 0;                                  // index into Layout::units
  int stage = 0;                                 // pipeline stage, counting virtual stages
  // The last stage, whose head needs a copy of this weight. Set only for an embedding that is tied
  // to the head, and only if the pipeline has several stages.
  std::optional<int> tied_stage;
  // True for the copy of a tied weight in the last stage's stage_layout(). Only the weight of the
  // first stage is counted and saved.
  bool tied_copy = false;

  bool in_stage(int of) const { return of == stage || of == tied_stage; }
  bool expert_parallel() const { return ep_cut || ep_owner.has_value(); }
  // Returns the extents of the global tensor along tp_dim that `rank` holds, one per slice; empty
  // without a tp_dim. Here and in the functions below, `rank` must hold the parameter.
  std::vector<mesh::Extent> tp_extents(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Returns the shape of this rank's tensor after tp or ep, before FSDP shards it.
  Shape tp_shape(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Returns the shape of this rank's shard after FSDP, without padding.
  Shape own_shape(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Returns the boxes that this rank stores: at least one, which may be empty.
  std::vector<LocalShard> parts(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Returns this rank's boxes after tp or ep, before FSDP shards them.
  std::vector<mesh::Box> tp_boxes(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Returns the box of the only element of parts(). Asserts that parts() has a single element.
  mesh::Box box(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Returns the number of neighbouring tp ranks whose partial gradients of `part`, an element of
  // parts(), must be summed. 1 means that this rank's gradient is complete.
  int64_t grad_sum_ranks(const LocalShard& part) const {
    return tp_dim.has_value() || grad_sum_over_tp ? part.copies : 1;
  }
  // Returns the number of elements that this rank stores: the FSDP shard with its padding.
  int64_t stored_numel(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Returns the placement for each of the groups dp_replicate, dp_shard_cp and tp (for experts in
  // the grid: ep_shard, ep and etp) with more than one rank, outer groups first. For example, the
  // result is {"dp_shard_cp": "Shard(0)", "tp": "Shard(0)"}. The matrix of a single expert has no
  // placement for ep.
  std::vector<std::pair<std::string, mesh::Placement>> placements(
      const mesh::MeshLayout& mesh) const;
};

struct Layout {
  mesh::MeshLayout mesh;
  model::Inventory inventory;
  std::vector<ParameterLayout> parameters;  // in the order of inventory.parameters
  std::vector<model::Unit> units;
  model::TpPlan tp_plan;
  model::ResolvedTpPlan tp;
  std::vector<int64_t> stage_owners;  // per stage: the index along pp of the ranks that run it

  // Whether the rank holds a shard of the parameter, possibly an empty one. The rank must run the
  // parameter's stage or the stage of the tied copy. For a matrix of one expert, the rank's index
  // along ep must also equal ep_owner. Always true if pp = 1 and ep = 1.
  bool holds(int64_t rank, const ParameterLayout& parameter) const {
    return copies(rank, parameter) > 0;
  }
  // Returns how many copies of the parameter the rank holds: two if the rank runs both stages of a
  // tied weight.
  int64_t copies(int64_t rank, const ParameterLayout& parameter) const {
    return copies_at(mesh.index(rank, "pp"), mesh.index(rank, "ep"), parameter);
  }
  // Works like copies(), for a rank with index `pp` along pp and index `ep` along ep.
  int64_t copies_at(int64_t pp, int64_t ep, const ParameterLayout& parameter) const;
  // Returns the lowest rank that holds the parameter.
  int64_t first_holder(const ParameterLayout& parameter) const;
  // Indices into `parameters`, separated by the group of ranks that shards the parameter: under
  // expert parallelism, experts have a group of their own.
  struct ByRanks {
    std::vector<int> dense, experts;
  };
  // Divides the parameters with these indices by the group that shards them. Leaves out experts
  // that `rank` does not hold.
  ByRanks by_ranks(const std::vector<int>& indices, int64_t rank) const;
  // Returns the elements of `indices` whose parameters have this value of `quantized`.
  std::vector<int> stored_as(const std::vector<int>& indices, bool quantized) const;
  // Returns the parameters that a unit gathers, as indices into `parameters`: all except those that
  // FSDP ignores.
  std::vector<int> gathered(const model::Unit& unit) const;
  // Returns the parameters that FSDP ignores, of one unit or of all units.
  std::vector<int> ignored_of(const model::Unit& unit) const;
  std::vector<int> ignored() const;
};

// Returns the layout of all parameters, or nothing if there is an error or if pp is too large for
// any schedule. Adds the diagnostics of adapters.h, of select_tp_plan and model::resolve_tp_plan,
// and of parameter_choice.h.
std::optional<Layout> build_layout(const config::Plan& plan, const model::ModelConfig& config,
                                   const mesh::MeshSizes& sizes, Diagnostics& found);

// Works like build_layout, for a model with only one decoder layer of each kind
// (model::sample_inventory), so that the time does not depend on the number of layers. A glob that
// matches only parameters of omitted layers matches nothing here, and is reported as an error.
std::optional<Layout> build_sample_layout(const config::Plan& plan,
                                          const model::ModelConfig& config,
                                          const mesh::MeshSizes& sizes, Diagnostics& found);

}  // namespace am::layout
