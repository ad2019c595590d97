// What a session looks into: parameters at rest in a folder, or a sharded model that lives in
// several ranks.
//
// The seam of am-repl's commands. A view exists once a rank; members marked *collective* are
// called on every rank with the same arguments, and a world of one needs no peers for them.
//
//   StoredView    stored_view.h    a checkpoint folder; one process
//   ShardedView   sharded_view.h   a ParallelModel under a plan's layout
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "am/base/json.h"
#include "am/base/shape.h"
#include "am/mesh/layout.h"
#include "am/mesh/shard.h"
#include "am/parallel/parallel_model.h"
#include "am/stored/tensor_source.h"

namespace am::inspect {

// A rank's part of a parameter.
struct HeldShard {
  int64_t rank = 0;
  mesh::Box box;
};

struct HeldParameter {
  std::string name;
  Shape shape;  // global
  at::ScalarType dtype = at::kFloat;
  std::vector<std::pair<std::string, mesh::Placement>>
      placements;                 // axis, how the parameter lies along it
  std::vector<HeldShard> shards;  // by rank, which may have several; replicas too

  int64_t numel() const { return am::numel(shape); }
  int64_t bytes() const { return numel() * static_cast<int64_t>(c10::elementSize(dtype)); }
};

// Called between the parts of long work, on every rank at the same places: throws when the user
// wants it to end. May be empty.
using Between = std::function<void()>;

// What cuts texts unless the user says otherwise.
struct DefaultTokenizer {
  std::string name;     // "bytes", or a tokenizer.json; empty: none is known
  std::string problem;  // why none is
};

// What one rank holds.
struct HeldBytes {
  int64_t rank = 0;
  int64_t sharded = 0;    // of its shards
  int64_t unsharded = 0;  // of full tensors that exist beside them
};

class ParameterView {
 public:
  virtual ~ParameterView() = default;

  // For the prompt: "llama step-300 [dp_shard 2]".
  virtual std::string title() const = 0;
  // What `info` prints, in this order.
  virtual Json info() = 0;
  // In natural order of their names.
  virtual const std::vector<HeldParameter>& parameters() const = 0;
  // Tensors beside them, an optimizer's above all: "optim.state.NAME.exp_avg". In natural order
  // too; commands read them like parameters.
  virtual std::span<const HeldParameter> states() const { return {}; }
  // Names of what is stored beside tensors, in natural order: settings, counters, texts.
  virtual std::vector<std::string> value_names() const { return {}; }
  // One of them; null where there is none of that name.
  virtual Json value(std::string_view /*name*/) const { return nullptr; }
  virtual const mesh::MeshLayout& mesh() const = 0;
  // Which rank this is; a checkpoint at rest is looked into by rank 0 alone.
  virtual int64_t rank() const { return 0; }
  // Parameters lie in files: shards are those that were saved, of replicas the first.
  virtual bool at_rest() const { return false; }
  // Those files; null for a model that lives in ranks.
  virtual const stored::TensorSource* source() const { return nullptr; }
  // What is worth saying when a session begins; may be empty.
  virtual std::string note() const { return {}; }

  // A box of a parameter in its stored dtype, on every rank, in host memory. Collective.
  virtual at::Tensor read(const HeldParameter& parameter, const mesh::Box& box) = 0;
  struct Part {
    at::Tensor values;          // [box.shape]
    mesh::Box box;              // in the parameter's index space
    bool first_replica = true;  // over all ranks, those that say so hold each element once
  };
  using PartVisit = std::function<bool(const Part&)>;
  // What this rank holds of a box of a parameter, replicas too, part by part until `visit` says
  // false. Not collective.
  virtual void visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                           const PartVisit& visit) = 0;
  // This rank's share of a parameter, part by part until `visit` says false: over all ranks each
  // element is visited exactly once.
  using Visit = std::function<bool(const at::Tensor&)>;
  virtual void visit_own(const HeldParameter& parameter, const Visit& visit) {
    visit_parts(parameter, mesh::Box::whole(parameter.shape),
                [&](const Part& part) { return !part.first_replica || visit(part.values); });
  }
  // row [n] -> [ranks, n], both in host memory, where ranks are those that share the work of
  // visit_own. Collective.
  virtual at::Tensor gather(const at::Tensor& row) = 0;

  // By rank. Collective.
  virtual std::vector<HeldBytes> held_bytes() = 0;
  // The box that each rank can use at once: its shard, or more while it is unsharded. Collective.
  virtual std::vector<HeldShard> usable_boxes(const HeldParameter& parameter) = 0;
  // Makes full tensors of the parameters, and of those that travel with them; returns the names of
  // all of them. What `between` stops is undone. Collective and idempotent.
  virtual std::vector<std::string> unshard(std::span<const HeldParameter* const> parameters,
                                           const Between& between) = 0;
  // What that would take of this machine's memory.
  virtual int64_t unshard_bytes(std::span<const HeldParameter* const> parameters) const = 0;
  // Frees them again. Collective and idempotent.
  virtual std::vector<std::string> reshard(std::span<const HeldParameter* const> parameters) = 0;
  // One sentence on what unsharding means here.
  virtual std::string unshard_note() const = 0;

  // The model that loss, logprob and generate run. Throws Error(kPlan) when there is no config that
  // says what it is. Collective.
  virtual parallel::ParallelModel& runnable(const Between& between = {}) = 0;
  // What runnable() has yet to take of this machine's memory.
  virtual int64_t runnable_bytes() const { return 0; }
  // Texts of a multiple of so many tokens are what its layout can compute.
  virtual int64_t length_multiple() const { return 1; }
  // After forward passes: the memory is again what unshard() and reshard() made it. Collective.
  virtual void after_forward() = 0;
  // The dtype in which runnable() computes; only a model at rest has a choice. Throws Error(kUsage)
  // otherwise.
  virtual void set_compute_dtype(at::ScalarType dtype) = 0;

  virtual DefaultTokenizer default_tokenizer() const = 0;

  // Writes a Hugging Face folder; nothing is left of one that `between` stops. Collective.
  virtual void export_hf(const std::filesystem::path& folder, std::optional<at::ScalarType> dtype,
                         const Between& between) = 0;
};

}  // namespace am::inspect
