// What a session computes with: the values of parameters at rest in a folder, or of a sharded model
// that lives in several ranks.
//
//   StoredView    stored_view.h    tensors at rest; one process
//   ShardedView   sharded_view.h   a ParallelModel under a plan's layout
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/data/tokenizer.h"
#include "am/inspect/holdings.h"
#include "am/inspect/session.h"
#include "am/observe/metrics.h"
#include "am/parallel/parallel_model.h"

namespace am::values {

// This folder is the half of inspect/ that needs libtorch, and speaks its words.
using namespace inspect;  // NOLINT(google-build-using-namespace)

class ParameterView : public virtual Holdings {
 public:
  // A box of a parameter in its stored dtype, on every rank, in host memory. Collective.
  virtual at::Tensor read(const HeldParameter& parameter, const mesh::Box& box) = 0;
  struct Part {
    at::Tensor values;          // [box.shape], to be read while it is visited
    mesh::Box box;              // in the parameter's index space
    bool first_replica = true;  // over all ranks, those that say so hold each element once
  };
  using PartVisit = std::function<bool(const Part&)>;
  // What this rank holds of a box of a parameter, replicas too, part by part until `visit` says
  // false. Not collective.
  virtual void visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                           const PartVisit& visit) = 0;
  // The same by several threads at once, where this process has them to spare: `number` is a part's
  // place in the order of visit_parts.
  using NumberedVisit = std::function<bool(size_t number, const Part&)>;
  virtual void visit_parts_at_once(const HeldParameter& parameter, const mesh::Box& box,
                                   const NumberedVisit& visit) {
    size_t number = 0;
    visit_parts(parameter, box, [&](const Part& part) { return visit(number++, part); });
  }
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
  std::vector<std::vector<int64_t>> gather_numbers(const std::vector<int64_t>& numbers) final;

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
  // After a backward pass of runnable(): its gradients are states now, "grad.NAME" of each
  // parameter that trains, until the model changes; `of` says of what. Not collective.
  virtual void after_backward(const std::string& of) = 0;
  // What they are of; empty: there are none.
  virtual std::string gradients_of() const = 0;
  // What a backward pass has yet to take of this machine's memory.
  virtual int64_t gradient_bytes() const = 0;
  // Trains so many steps on the plan's data, and says what the last one was. Throws Error(kUsage)
  // where there is no plan, Error(kPlan) where it cannot be trained. Collective.
  virtual observe::StepMetrics train(int64_t steps, const Between& between);
  // The last collectives of each rank, the newest first: RecentCollectives::to_json. Throws
  // Error(kUsage) where there are none. Collective.
  virtual std::vector<Json> recent_collectives();
  // The dtype in which runnable() computes; only a model at rest has a choice. Throws Error(kUsage)
  // otherwise.
  virtual void set_compute_dtype(at::ScalarType dtype) = 0;
  // What cuts texts into its tokens, made once a name. Throws what make_tokenizer throws.
  const data::Tokenizer& tokenizer(const std::string& name);

  // Writes a Hugging Face folder; nothing is left of one that `between` stops. Collective.
  virtual void export_hf(const std::filesystem::path& folder, std::optional<at::ScalarType> dtype,
                         const Between& between) = 0;

 private:
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::string tokenizer_name_;
};

// "grad.model.norm.weight"
inline constexpr std::string_view kGradientPrefix = "grad.";

// What the session looks into, with its values. Throws Error(kInternal) where it was opened without
// them.
ParameterView& values_of(Session& session);

// Finished updates of a parameter: its state "step", or the checkpoint's step. Collective.
std::optional<double> step_of(Session& session, const HeldParameter& parameter);

}  // namespace am::values
