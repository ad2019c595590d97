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
// Under ddp and under level 0 of megatron_fsdp and megatron, dp_replicate is all of dp; otherwise
// dp_shard = dp / dp_replicate_size.
std::optional<mesh::MeshSizes> resolve_mesh(const config::Plan& plan, int64_t world_size,
                                            Diagnostics& found);

// Mesh sizes as far as they are known. `axes` and `dp` are set even if the sizes contradict the
// world size, so that a wrong dp_size does not hide errors about tp_size.
struct MeshDraft {
  std::optional<mesh::MeshSizes> sizes;  // result of resolve_mesh
  std::optional<mesh::MeshSizes> axes;   // pp, cp and tp as written, other axes 1; absent if a size
                                         // or their product is out of range
  std::optional<int64_t> dp;  // data-parallel size, as written or derived; absent if unknown
};
MeshDraft draft_mesh(const config::Plan& plan, int64_t world_size, Diagnostics& found);

// Returns the number of ranks per node: mesh.ranks_per_node, or fewer if `world_size` ranks do not
// fill cluster.nodes nodes.
int64_t ranks_of_node(const config::Plan& plan, int64_t world_size);

// Returns the TP plan that the strategy's tp_plan key selects: "auto" (the plan of the model's
// family), an inline table, a TOML file with such a table, a family's name, or "libmine.so:symbol",
// which is loaded only if `plan.plugins` allows it. Adds "tp.plan", "tp.plugin" and "tp.style"
// errors. megatron_fsdp and megatron use "auto"; under ddp, the TP plan has no rules.
std::optional<model::TpPlan> select_tp_plan(const config::Plan& plan,
                                            const model::ModelConfig& config, Diagnostics& found);

// A box of a parameter that a rank stores. Neighbouring tp ranks may store copies of the box.
struct LocalShard {
  mesh::Box box;       // offset and shape in the global tensor
  int64_t copies = 1;  // number of neighbouring tp ranks that store the box
  int64_t copy = 0;    // this rank's index among those tp ranks
};

// Options of the optimizer for one parameter: those of [optimizer], unless its keys `group` or
// `no_decay`, or lora.loraplus_lr_ratio, apply.
struct OptimizerOptions {
  double lr = 1e-3;  // peak learning rate
  double weight_decay = 0.0;

  bool operator==(const OptimizerOptions&) const = default;
};

// Sharding of one parameter. tp or ep shards first, then FSDP over `shard_group` on `fsdp_dim` of
// the result. For a fused matrix that tp shards slice by slice, the local tensor concatenates
// several boxes of the global tensor along `tp_dim`.
//
// With ep > 1 routed experts use a different mesh: the ranks of a stage are (ep_shard, ep, etp).
// Each ep rank holds an equal number of experts. FSDP shards experts over ep_shard, which includes
// dp_replicate. etp, which only the strategy megatron has, cuts each expert along its width; tp
// does not. Under megatron, experts use this mesh even with ep = 1 if tp or etp is greater than 1.
struct ParameterLayout {
  std::string name;
  Shape shape;                // global shape
  std::optional<int> tp_dim;  // dim that is sharded over tp_group; absent if tp_group shards no dim
  std::string_view tp_group = "tp";  // "etp" for experts of the expert groups
  // Slices of tp_dim, in order, each sharded by itself. Empty: the dim is one slice without copies.
  std::vector<mesh::DimSlice> tp_slices;
  bool grad_sum_over_tp = false;    // each tp rank holds the full parameter, and its gradient is
                                    // a partial sum; false if tp = 1
  bool ep_cut = false;              // tensor of all experts, sharded over ep on dim 0
  std::optional<int64_t> ep_owner;  // for one expert's matrix: index along ep of the ranks with it
  // False for router correction biases (buffers) and for matches of model.freeze_params. Under
  // LoRA, true only for the adapters and for lora.modules_to_save.
  bool trainable = true;
  bool quantized = false;  // stored in NF4 (quantization.h): lora.quantize_base
  OptimizerOptions optimizer;
  bool orthogonalized = false;  // updated by Muon: a matrix of a decoder layer
  bool ignored = false;         // in no FSDP unit: each data-parallel rank stores all of it
  // Whether FSDP shards the parameter; each shard is padded to mesh::chunk_length().
  bool fsdp = false;
  int fsdp_dim = 0;  // dim that FSDP shards; if not 0, all shards have equal sizes
  std::string_view shard_group = "dp_shard_cp";  // group over which FSDP shards; "ep_shard" for
                                                 // experts under expert parallelism
  int unit = 0;                                  // index into Layout::units
  int stage = 0;                                 // pipeline stage, counting virtual stages
  // Last stage, whose head needs a copy of this weight; only for an embedding that is tied to the
  // head, with several stages.
  std::optional<int> tied_stage;
  // True for the copy of a tied weight in the last stage's stage_layout. Only the first stage's
  // weight is counted and saved.
  bool tied_copy = false;

  bool in_stage(int of) const { return of == stage || of == tied_stage; }
  bool expert_parallel() const { return ep_cut || ep_owner.has_value(); }
  // Returns the extents along tp_dim that this rank holds, one per slice. Here and below, the rank
  // must hold the parameter.
  std::vector<mesh::Extent> tp_extents(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Returns the shape of this rank's tensor after tp or ep, before FSDP shards it.
  Shape tp_shape(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Returns the shape of this rank's shard of that tensor after FSDP, without padding.
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
  // Returns the placement on every mesh axis of size > 1 except pp, outer axes first, for example
  // {"dp_shard_cp": "Shard(0)", "tp": "Shard(0)"}. The matrix of a single expert has no placement
  // on ep.
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

  // Whether the rank holds a shard of the parameter, possibly empty: the rank runs the parameter's
  // stage (or that of the tied copy) and, for an expert, its ep rank holds the expert. Always true
  // if pp = 1 and ep = 1.
  bool holds(int64_t rank, const ParameterLayout& parameter) const {
    return copies(rank, parameter) > 0;
  }
  // Returns how many copies of the parameter the rank holds: two if it runs both stages of a tied
  // weight.
  int64_t copies(int64_t rank, const ParameterLayout& parameter) const {
    return copies_at(mesh.index(rank, "pp"), mesh.index(rank, "ep"), parameter);
  }
  // Works like copies(), for any rank with the indices `pp` and `ep` along these axes.
  int64_t copies_at(int64_t pp, int64_t ep, const ParameterLayout& parameter) const;
  // Returns the lowest rank that holds the parameter.
  int64_t first_holder(const ParameterLayout& parameter) const;
  // Indices into `parameters`, separated by the group of ranks that shards the parameter: under
  // expert parallelism, experts have a group of their own.
  struct ByRanks {
    std::vector<int> dense, experts;
  };
  // Divides parameters by their group of ranks, without experts that this rank does not hold.
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
// names an omitted layer is an error, because it matches no parameter.
std::optional<Layout> build_sample_layout(const config::Plan& plan,
                                          const model::ModelConfig& config,
                                          const mesh::MeshSizes& sizes, Diagnostics& found);

}  // namespace am::layout
