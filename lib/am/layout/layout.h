// Computes from a plan and a model config what every rank holds. The runtime calls the same
// functions.
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

// Returns the mesh sizes of a plan. `world_size`: the launcher's number of ranks, or 0 for the
// plan's own. Adds "mesh.*" diagnostics; returns nothing if the sizes do not form a world. Under
// ddp all of dp is dp_replicate; otherwise dp_shard = dp / dp_replicate_size.
std::optional<mesh::MeshSizes> resolve_mesh(const config::Plan& plan, int64_t world_size,
                                            Diagnostics& found);

// Sizes in [mesh], available even if they do not form a world, so that a wrong dp_size does not
// hide errors about tp_size.
struct MeshDraft {
  std::optional<mesh::MeshSizes> sizes;  // as returned by resolve_mesh
  std::optional<mesh::MeshSizes> axes;   // pp, cp and tp as written, others 1; absent if a size is
                                         // below 1 or their product is too large
  std::optional<int64_t> dp;             // as written, or derived from the world size
};
MeshDraft draft_mesh(const config::Plan& plan, int64_t world_size, Diagnostics& found);

// Ranks per node of a plan: mesh.ranks_per_node, or fewer if cluster.nodes distributes them over
// more nodes.
int64_t ranks_of_node(const config::Plan& plan, int64_t world_size);

// Returns the TP plan for the strategy's tp_plan key: "auto" (the family's), an inline table, a
// TOML file with such a table, a family's name, or "libmine.so:symbol", which is loaded only if
// `plan.plugins` allows it. Adds "tp.plan", "tp.plugin" and "tp.style". Empty for ddp.
std::optional<model::TpPlan> select_tp_plan(const config::Plan& plan,
                                            const model::ModelConfig& config, Diagnostics& found);

// A box of a parameter that a rank stores, with this rank's index among the tp ranks that store it.
struct LocalShard {
  mesh::Box box;       // in the global tensor
  int64_t copies = 1;  // number of neighbouring tp ranks that store the box
  int64_t copy = 0;    // this rank's index among them
};

// Sharding of one parameter. Cuts apply in this order: tp or ep, then `shard_group` on `fsdp_dim`
// of the result. A matrix that is cut slice by slice is several boxes of the global tensor,
// concatenated along `tp_dim` in the local tensor.
//
// With ep > 1 routed experts use a different mesh: the ranks of a stage are (ep_shard, ep), each ep
// rank has an equal number of whole experts, and FSDP shards those over ep_shard, which includes
// the replicas. tp does not cut experts.
struct ParameterLayout {
  std::string name;
  Shape shape;                // global shape
  std::optional<int> tp_dim;  // dim sharded over tp; only if tp > 1
  // Slices of that dim, in order; empty: one slice, not replicated.
  std::vector<mesh::DimSlice> tp_slices;
  bool grad_sum_over_tp = false;    // replicated over tp with partial gradients; only if tp > 1
  bool ep_cut = false;              // all experts in one tensor, sharded over ep on dim 0
  std::optional<int64_t> ep_owner;  // for a single expert's matrix: the ep index that holds it
  // False for buffers, for matches of model.freeze_params, and under LoRA for all but the adapters.
  bool trainable = true;
  bool decays = true;           // false for matches of optimizer.no_decay
  bool orthogonalized = false;  // updated by Muon: a matrix of a decoder layer
  bool ignored = false;         // in no FSDP unit: whole on each data-parallel rank
  bool fsdp = false;            // sharded over shard_group, each piece padded to chunk_length
  int fsdp_dim = 0;             // dim of that cut; dims other than 0 are cut evenly
  std::string_view shard_group = "dp_shard_cp";  // "ep_shard" for experts under expert parallelism
  int unit = 0;                                  // index into Layout::units
  int stage = 0;                                 // pipeline stage, counting virtual stages
  // The last stage, if the head is tied to the embedding and needs a copy of this weight there.
  std::optional<int> tied_stage;
  // True for the copy of a tied weight in the last stage's stage_layout. Only the first stage's
  // weight is counted and saved.
  bool tied_copy = false;

  bool in_stage(int of) const { return of == stage || of == tied_stage; }
  bool expert_parallel() const { return ep_cut || ep_owner.has_value(); }
  // Returns the extents along tp_dim that this rank holds, one per slice. Here and below, the rank
  // must hold the parameter.
  std::vector<mesh::Extent> tp_extents(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Shape after tp or ep only, and shape of what this rank stores, without padding.
  Shape tp_shape(const mesh::MeshLayout& mesh, int64_t rank) const;
  Shape own_shape(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Boxes that this rank stores: at least one, which may be empty.
  std::vector<LocalShard> parts(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Boxes after tp or ep only.
  std::vector<mesh::Box> tp_boxes(const mesh::MeshLayout& mesh, int64_t rank) const;
  // The box of a parameter for which parts() has one element; asserts it.
  mesh::Box box(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Number of neighbouring tp ranks whose partial gradients of `part` (one of parts()) must be
  // summed; 1: the gradient is complete.
  int64_t grad_sum_ranks(const LocalShard& part) const {
    return tp_dim.has_value() || grad_sum_over_tp ? part.copies : 1;
  }
  // Number of elements that this rank stores: the FSDP piece with its padding.
  int64_t stored_numel(const mesh::MeshLayout& mesh, int64_t rank) const;
  // {"tp": "Shard(0)", "dp_shard_cp": "Shard(0)"}: every axis of size > 1, outer first. A single
  // expert's matrix is not placed along ep.
  std::vector<std::pair<std::string, mesh::Placement>> placements(
      const mesh::MeshLayout& mesh) const;
};

struct Layout {
  mesh::MeshLayout mesh;
  model::Inventory inventory;
  std::vector<ParameterLayout> parameters;  // parallel to inventory.parameters
  std::vector<model::Unit> units;
  model::TpPlan tp_plan;
  model::ResolvedTpPlan tp;
  std::vector<int64_t> stage_owners;  // per stage: index along pp that runs it

  // Whether this rank holds a part of the parameter, possibly empty: its pipeline rank runs the
  // parameter's stage (or the tied copy's), and its ep rank holds the expert. Always true if pp = 1
  // and ep = 1.
  bool holds(int64_t rank, const ParameterLayout& parameter) const {
    return copies(rank, parameter) > 0;
  }
  // Number of copies on this rank: two if it runs both stages of a tied weight.
  int64_t copies(int64_t rank, const ParameterLayout& parameter) const {
    return copies_at(mesh.index(rank, "pp"), mesh.index(rank, "ep"), parameter);
  }
  // As copies(), for ranks with these indices.
  int64_t copies_at(int64_t pp, int64_t ep, const ParameterLayout& parameter) const;
  // The lowest rank that holds the parameter.
  int64_t first_holder(const ParameterLayout& parameter) const;
  // Parameters by the group of ranks that shards them: with ep > 1, experts have a different group.
  // Indices into `parameters`.
  struct ByRanks {
    std::vector<int> dense, experts;
  };
  // Sorts these parameters into groups, without experts that this rank does not hold. Either list
  // may be empty.
  ByRanks by_ranks(const std::vector<int>& indices, int64_t rank) const;
  // Parameters that a unit gathers: all except those that FSDP ignores. Indices into `parameters`.
  std::vector<int> gathered(const model::Unit& unit) const;
  // Parameters that FSDP ignores, of one unit or of all.
  std::vector<int> ignored_of(const model::Unit& unit) const;
  std::vector<int> ignored() const;
};

// Adds the TP plan's diagnostics and those of parameter_choice.h; returns nothing if there is an
// error.
std::optional<Layout> build_layout(const config::Plan& plan, const model::ModelConfig& config,
                                   const mesh::MeshSizes& sizes, Diagnostics& found);

// As build_layout, with one decoder layer of each kind (model::sample_inventory): enough to see how
// every module is sharded, in a time independent of the number of layers. Globs over parameter
// names may match no layer.
std::optional<Layout> build_sample_layout(const config::Plan& plan,
                                          const model::ModelConfig& config,
                                          const mesh::MeshSizes& sizes, Diagnostics& found);

}  // namespace am::layout
