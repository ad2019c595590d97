// From a plan and a model config to what every rank holds: the functions that the runtime itself
// calls.
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

namespace am::planner {

// Sizes from the plan. `world_size`: what a launcher gives; 0: the plan's own. Adds "mesh.*"
// diagnostics; nothing when the sizes do not make a world. Under ddp all of dp is dp_replicate,
// otherwise what dp_replicate_size leaves of it is dp_shard.
std::optional<mesh::MeshSizes> resolve_mesh(const config::Plan& plan, int64_t world_size,
                                            Diagnostics& found);

// What the keys of [mesh] say, also when they make no world: so that a wrong dp_size does not hide
// what is wrong with tp_size.
struct MeshDraft {
  std::optional<mesh::MeshSizes> sizes;  // as resolve_mesh gives them
  std::optional<mesh::MeshSizes> axes;   // pp, cp and tp as written, all else 1; absent when a size
                                         // is below 1, or their product too large
  std::optional<int64_t> dp;             // as written, or what the world leaves
};
MeshDraft draft_mesh(const config::Plan& plan, int64_t world_size, Diagnostics& found);

// The TP plan that the strategy's key asks for: "auto" (the family's), an inline table, a TOML file
// with such a table, a family's name, or "libmine.so:symbol", which is loaded where `plan.plugins`
// allows it. Adds "tp.plan", "tp.plugin" and "tp.style". ddp has an empty one.
std::optional<model::TpPlan> select_tp_plan(const config::Plan& plan,
                                            const model::ModelConfig& config, Diagnostics& found);

// A box of a parameter that a rank stores, and which of the tp ranks that store it this one is.
struct OwnPart {
  mesh::Box box;       // global
  int64_t copies = 1;  // tp ranks that store it, neighbours
  int64_t copy = 0;    // this one's number among them
};

// How one parameter is cut. Cuts apply in this order: tp or ep, then `shard_group` on `fsdp_dim` of
// what that left. A matrix that is cut slice by slice is several boxes of the whole, which lie one
// after the other along `tp_dim` in what a rank has.
//
// With ep > 1 routed experts leave the mesh of the others: the ranks of a stage are (ep_shard, ep)
// to them, each ep rank has as many whole experts as the next, and FSDP cuts those over ep_shard,
// replicas included. tp does not cut them.
struct ParameterLayout {
  std::string name;
  Shape shape;                            // global
  std::optional<int> tp_dim;              // cut over tp on this dim; only when tp > 1
  std::vector<mesh::DimSlice> tp_slices;  // of that dim, in order; empty: one, without copies
  bool grad_sum_over_tp = false;    // replicated over tp, its gradient a part; only when tp > 1
  bool ep_cut = false;              // all experts in one tensor: cut over ep on dim 0
  std::optional<int64_t> ep_owner;  // one expert's own: the index along ep that holds it
  bool trainable = true;            // but buffers, what model.freeze_params names,
                                    // and all but adapters where there are any
  bool decays = true;               // optimizer.no_decay says otherwise
  bool orthogonalized = false;      // by Muon: a matrix of a decoder layer
  bool ignored = false;             // in no FSDP unit: whole on each data-parallel rank
  bool fsdp = false;                // cut over shard_group, each piece padded to chunk_length
  int fsdp_dim = 0;                 // on this dim; one other than 0 is cut evenly
  std::string_view shard_group = "dp_shard_cp";  // "ep_shard" for what expert parallelism places
  int unit = 0;                                  // index into Layout::units
  int stage = 0;                                 // pipeline stage, virtual ones counted
  std::optional<int> tied_stage;  // another stage has a copy: the last, where the head's weight is
                                  // the embedding's
  bool tied_copy = false;  // that copy, in the layout of its stage alone: the embedding's own
                           // is the one that is counted and saved

  bool in_stage(int of) const { return of == stage || of == tied_stage; }
  bool expert_parallel() const { return ep_cut || ep_owner.has_value(); }
  // What this rank has along tp_dim, slice after slice. The rank must hold the parameter, here and
  // below.
  std::vector<mesh::Extent> tp_extents(const mesh::MeshLayout& mesh, int64_t rank) const;
  // After tp or ep alone; of what this rank stores, without padding.
  Shape tp_shape(const mesh::MeshLayout& mesh, int64_t rank) const;
  Shape own_shape(const mesh::MeshLayout& mesh, int64_t rank) const;
  // What this rank stores: at least one box, which may be empty.
  std::vector<OwnPart> parts(const mesh::MeshLayout& mesh, int64_t rank) const;
  // The same after tp or ep alone.
  std::vector<mesh::Box> tp_boxes(const mesh::MeshLayout& mesh, int64_t rank) const;
  // Where parts() is one, its box.
  mesh::Box box(const mesh::MeshLayout& mesh, int64_t rank) const;
  // How many tp ranks, neighbours, have parts of the gradient of one of parts(); 1: it is whole.
  int64_t grad_sum_ranks(const OwnPart& part) const {
    return tp_dim.has_value() || grad_sum_over_tp ? part.copies : 1;
  }
  // Elements that this rank really stores: the FSDP piece with its padding.
  int64_t stored_numel(const mesh::MeshLayout& mesh, int64_t rank) const;
  // {"tp": "Shard(0)", "dp_shard_cp": "Shard(0)"}: every axis of size > 1, outer first. An expert
  // that one ep rank owns is not placed along ep.
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
  std::vector<int64_t> stage_owners;  // by stage: the index along pp that runs it

  // Whether this rank has a part of the parameter (which may be empty): its pipeline position has
  // the stage, or that of the copy, and its ep rank the expert. Always true with pp = 1 and ep = 1.
  bool holds(int64_t rank, const ParameterLayout& parameter) const {
    return copies(rank, parameter) > 0;
  }
  // How many: two where one rank has both stages of a tie.
  int64_t copies(int64_t rank, const ParameterLayout& parameter) const {
    return copies_at(mesh.index(rank, "pp"), mesh.index(rank, "ep"), parameter);
  }
  // The same of ranks with these indices.
  int64_t copies_at(int64_t pp, int64_t ep, const ParameterLayout& parameter) const;
  // The first such rank.
  int64_t first_holder(const ParameterLayout& parameter) const;
  // Parameters that one group of data-parallel ranks has: with ep > 1 experts have ranks of their
  // own. Indices into `parameters`.
  struct ByRanks {
    std::vector<int> dense, experts;
  };
  // Of these parameters those whose experts this rank has. Either may be empty.
  ByRanks by_ranks(const std::vector<int>& indices, int64_t rank) const;
  // What a unit gathers: its parameters but those that FSDP ignores. Indices into `parameters`.
  std::vector<int> gathered(const model::Unit& unit) const;
  // What FSDP ignores, of a unit or of all.
  std::vector<int> ignored_of(const model::Unit& unit) const;
  std::vector<int> ignored() const;
};

// Adds the TP plan's diagnostics and those of parameter_choice.h; nothing when one is an error.
std::optional<Layout> build_layout(const config::Plan& plan, const model::ModelConfig& config,
                                   const mesh::MeshSizes& sizes, Diagnostics& found);

// The same of one decoder layer of each make (model::sample_inventory), enough to see
// how every module is cut, in a time that does not depend on the number of layers. Globs
// over parameters' names may miss their layer.
std::optional<Layout> build_sample_layout(const config::Plan& plan,
                                          const model::ModelConfig& config,
                                          const mesh::MeshSizes& sizes, Diagnostics& found);

}  // namespace am::planner
