// Access to parameter values in a session. The values are either in a checkpoint's files or in a
// sharded model in the memory of several ranks.
//
//   StoredView    stored_view.h    tensors in files, read by one process
//   ShardedView   sharded_view.h   a ParallelModel in a plan's layout, on its ranks
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
#include "am/inspect/session.h"
#include "am/inspect/tensor_catalog.h"
#include "am/observe/metrics.h"
#include "am/parallel/parallel_model.h"

namespace am::values {

// Names of inspect/ that most files of this folder use.
using inspect::Between;
using inspect::DefaultTokenizer;
using inspect::HeldBytes;
using inspect::HeldParameter;
using inspect::HeldShard;
using inspect::Session;
using inspect::SessionOptions;

class ParameterView : public inspect::TensorCatalog {
 public:
  // Returns the values of a box of a parameter, on every rank, in the stored dtype and in host
  // memory. Collective.
  virtual at::Tensor read(const HeldParameter& parameter, const mesh::Box& box) = 0;
  struct Part {
    at::Tensor values;          // [box.shape], valid only during the visit
    mesh::Box box;              // the part's location in the parameter
    bool first_replica = true;  // over all ranks, the parts with this flag have each element once
  };
  using PartVisit = std::function<bool(const Part&)>;
  // Visits those parts of a parameter's box that this rank has, including replicas of other ranks'
  // parts, until `visit` returns false. Not collective.
  virtual void visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                           const PartVisit& visit) = 0;
  // Visits the same parts as visit_parts, but may call `visit` on several threads at once. `number`
  // is the part's index in the order of visit_parts.
  using NumberedVisit = std::function<bool(size_t number, const Part&)>;
  virtual void visit_parts_at_once(const HeldParameter& parameter, const mesh::Box& box,
                                   const NumberedVisit& visit) {
    size_t number = 0;
    visit_parts(parameter, box, [&](const Part& part) { return visit(number++, part); });
  }
  // Visits this rank's share of a parameter until `visit` returns false. Over all ranks, each
  // element is visited exactly once.
  using Visit = std::function<bool(const at::Tensor&)>;
  virtual void visit_own(const HeldParameter& parameter, const Visit& visit) {
    visit_parts(parameter, mesh::Box::whole(parameter.shape),
                [&](const Part& part) { return !part.first_replica || visit(part.values); });
  }
  // Gathers each rank's `row` [n] to [ranks, n], both in host memory, over the ranks that share the
  // work of visit_own. Collective.
  virtual at::Tensor gather(const at::Tensor& row) = 0;
  std::vector<std::vector<int64_t>> gather_numbers(const std::vector<int64_t>& numbers) final;

  // Returns, for all ranks, the boxes of the parameter that a rank can read without communication:
  // its shards, or larger boxes while the parameter is unsharded. Collective.
  virtual std::vector<HeldShard> usable_boxes(const HeldParameter& parameter) = 0;
  // Gathers full tensors of the parameters, and of all parameters that the view gathers together
  // with them. Returns the names of all these parameters. If `between`, which is called before each
  // step, throws, frees what this call has gathered. Collective and idempotent.
  virtual std::vector<std::string> unshard(std::span<const HeldParameter* const> parameters,
                                           const Between& between) = 0;
  // Returns the bytes of this machine's memory that unshard would allocate.
  virtual int64_t unshard_bytes(std::span<const HeldParameter* const> parameters) const = 0;
  // Frees the full tensors and returns the names of their parameters. Collective and idempotent.
  virtual std::vector<std::string> reshard(std::span<const HeldParameter* const> parameters) = 0;
  // Returns a sentence for the user that explains what unshard does in this view.
  virtual std::string unshard_note() const = 0;

  // Returns the model that the commands loss, logprob and generate run. Throws Error(kPlan) if no
  // config.json describes the model. Collective.
  virtual parallel::ParallelModel& runnable(const Between& between = {}) = 0;
  // Returns the bytes of this machine's memory that runnable() would still allocate.
  virtual int64_t runnable_bytes() const { return 0; }
  // Returns the number that must divide the sequence length of a forward pass.
  virtual int64_t length_multiple() const { return 1; }
  // Restores which parameters are gathered: those that the user unsharded. Must be called after
  // forward passes, which gather and free parameters. Collective.
  virtual void after_forward() = 0;
  // Must be called after a backward pass of runnable(). Lists the gradients among states(), as
  // "grad.NAME" for each trainable parameter, until the model changes. `of` describes where they
  // come from, for example "of step 3".
  virtual void after_backward(const std::string& of) = 0;
  // Returns where the gradients come from, for example "of step 3"; empty without gradients.
  virtual std::string gradients_of() const = 0;
  // Returns the bytes of this machine's memory that a backward pass would still allocate.
  virtual int64_t gradient_bytes() const = 0;
  // Trains `steps` steps on the plan's data and returns the metrics of the last step. Throws
  // Error(kUsage) if the view has no plan, Error(kPlan) if the plan cannot be trained. Collective.
  virtual observe::StepMetrics train(int64_t steps, const Between& between);
  // Returns the recent collectives of each rank, newest first: RecentCollectives::to_json. Throws
  // Error(kUsage) if none are recorded. Collective.
  virtual std::vector<Json> recent_collectives();
  // Sets the dtype in which runnable() computes. Throws Error(kUsage) unless the values are those
  // of a checkpoint's files: with a plan, the plan gives the dtype.
  virtual void set_compute_dtype(at::ScalarType dtype) = 0;
  // Returns the named tokenizer. Keeps it, so that another call with the same name does not create
  // it again. Throws what make_tokenizer throws.
  const data::Tokenizer& tokenizer(const std::string& name);

  // Writes a Hugging Face folder; leaves nothing behind if `between` throws. Collective.
  virtual void export_hf(const std::filesystem::path& folder, std::optional<at::ScalarType> dtype,
                         const Between& between) = 0;

 private:
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::string tokenizer_name_;
};

// Prefix of a gradient's name, for example in "grad.model.norm.weight".
inline constexpr std::string_view kGradientPrefix = "grad.";

// Returns a session that also runs the commands that read values.
Session session_of(std::unique_ptr<ParameterView> view, SessionOptions options);

// Returns the session's view with access to values. Throws Error(kInternal) if the session was
// opened without values.
ParameterView& values_of(Session& session);

// Returns the number of optimizer updates of a parameter: the value of its optimizer state "step",
// or without that state the checkpoint's or the job's step. Collective.
std::optional<double> step_of(Session& session, const HeldParameter& parameter);

}  // namespace am::values
