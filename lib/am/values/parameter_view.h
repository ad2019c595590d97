// Access to the values of parameters in an am-repl session. The values are either in the files of a
// checkpoint or in the memory of the ranks of a sharded model.
//
//   StoredView    stored_view.h    tensors in files, read by one process
//   ShardedView   sharded_view.h   a ParallelModel in a plan's layout, on its ranks
//   ProgramView   program_view.h   tensors of a program of another framework, on its ranks
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

#include "am/checkpoint/weights.h"
#include "am/data/tokenizer.h"
#include "am/inspect/session.h"
#include "am/inspect/tensor_catalog.h"
#include "am/observe/metrics.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/group.h"

namespace am::values {

// Names of other namespaces that the files of this folder use.
using checkpoint::HubExport;
using inspect::Between;
using inspect::DefaultTokenizer;
using inspect::HeldBytes;
using inspect::HeldParameter;
using inspect::HeldShard;
using inspect::Session;
using inspect::SessionOptions;

// Number of tokens of a step's global batch that were routed to each expert: the experts of the
// first layer with experts, then those of the next one, and so on.
struct StepExperts {
  int64_t step = 0;  // number of the step; the first is 1
  std::vector<double> counts;
};

class ParameterView : public inspect::TensorCatalog {
 public:
  // Returns the values of a box of a parameter on every rank, in the stored dtype and in host
  // memory. Collective.
  virtual at::Tensor read(const HeldParameter& parameter, const mesh::Box& box) = 0;
  // Block of a parameter that this rank can access locally.
  struct Part {
    at::Tensor values;          // [box.shape], valid only during the call of `visit`
    mesh::Box box;              // location in the parameter
    bool first_replica = true;  // over all ranks, parts with this flag contain each element once
  };
  using PartVisit = std::function<bool(const Part&)>;
  // Calls `visit` with the part in `box` of each block of this rank, until a call returns false.
  // Blocks that are replicas of other ranks' blocks are visited too. Not collective.
  virtual void visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                           const PartVisit& visit) = 0;
  // Like visit_parts(), but may call `visit` on several threads at once. `number` is the index of
  // the block in the order of visit_parts().
  using NumberedVisit = std::function<bool(size_t number, const Part&)>;
  virtual void visit_parts_at_once(const HeldParameter& parameter, const mesh::Box& box,
                                   const NumberedVisit& visit) {
    size_t number = 0;
    visit_parts(parameter, box, [&](const Part& part) { return visit(number++, part); });
  }
  // Calls `visit` with blocks of the parameter until a call returns false. Each element is visited
  // on exactly one rank.
  using Visit = std::function<bool(const at::Tensor&)>;
  virtual void visit_own(const HeldParameter& parameter, const Visit& visit) {
    visit_parts(parameter, mesh::Box::whole(parameter.shape),
                [&](const Part& part) { return !part.first_replica || visit(part.values); });
  }
  // Gathers the `row` [n] of each rank and returns the rows as [ranks, n], in host memory. The
  // ranks are those among which visit_own() distributes the elements. Collective.
  virtual at::Tensor gather(const at::Tensor& row) = 0;
  std::vector<std::vector<int64_t>> gather_numbers(const std::vector<int64_t>& numbers) final;
  // Runs `body` on all ranks. If `body` throws on any rank, throws on all ranks
  // (checkpoint/collective_step.h). Collective.
  virtual void run_on_all_or_fail(const std::function<void()>& body) { body(); }

  // Returns the boxes of the parameter that each rank can read without communication: its shards,
  // or larger boxes while the parameter is unsharded. Collective.
  virtual std::vector<HeldShard> usable_boxes(const HeldParameter& parameter) = 0;
  // Gathers full tensors of the parameters, and of all parameters that can only be gathered
  // together with them. Returns the names of all gathered parameters. Calls `between` before each
  // gather. If `between` throws, unshard() frees the tensors that this call has gathered.
  // Collective and idempotent.
  virtual std::vector<std::string> unshard(std::span<const HeldParameter* const> parameters,
                                           const Between& between) = 0;
  // Returns the number of bytes that unshard() would allocate on this machine. ShardedView assumes
  // that all ranks are on this machine.
  virtual int64_t unshard_bytes(std::span<const HeldParameter* const> parameters) const = 0;
  // Frees the full tensors of the parameters, and of all parameters that unshard() gathered
  // together with them. Returns the names of the freed parameters. Collective and idempotent.
  virtual std::vector<std::string> reshard(std::span<const HeldParameter* const> parameters) = 0;
  // Frees all full tensors that unshard() has gathered. Collective.
  virtual void reshard_all();
  // Returns a sentence for the user that explains the effect of unshard().
  virtual std::string unshard_note() const = 0;

  // Returns the model that commands such as loss and generate run. Throws Error(kPlan) if no
  // config.json describes the model, and Error(kUsage) for a ProgramView. Collective.
  virtual parallel::ParallelModel& runnable(const Between& between = {}) = 0;
  // Returns the number of bytes that the next runnable() would allocate on this machine.
  virtual int64_t runnable_bytes() const { return 0; }
  // Returns a number that must divide the sequence length of each forward pass.
  virtual int64_t length_multiple() const { return 1; }
  // Gathers the parameters that the user unsharded, and frees all others. The caller must call
  // after_forward() after forward passes, because they gather and free parameters. Collective.
  virtual void after_forward() = 0;
  // Adds the gradients to states(), as "grad.NAME" for each trainable parameter, until the model
  // changes. Must be called after a backward pass of runnable(). `of` describes the origin of the
  // gradients, for example "of step 3".
  virtual void after_backward(const std::string& of) = 0;
  // Returns the origin of the gradients, for example "of step 3"; empty without gradients.
  virtual std::string gradients_of() const = 0;
  // Returns the number of bytes that the gradients of the next backward pass would allocate on this
  // machine; 0 if gradients exist. ShardedView assumes that all ranks are on this machine.
  virtual int64_t gradient_bytes() const = 0;
  // Trains `steps` steps on the data of the plan and returns the metrics of the last step. Throws
  // Error(kUsage) if the view has no plan, and Error(kPlan) if the plan cannot be trained.
  // Collective.
  virtual observe::StepMetrics train(int64_t steps, const Between& between);
  // Runs a forward pass on the data of the next step, without gradients. Returns a description of
  // the data, for example "of the data of step 13". Throws Error(kUsage) if the view has no data.
  // Collective.
  virtual std::string forward_next_batch(const Between& between);
  // Returns the number of tokens that the last step routed to each expert. `counts` is empty before
  // the first step, and for a model without experts.
  virtual StepExperts last_experts() const { return {}; }
  // Returns the recent collectives of each rank, newest first, in the form of
  // RecentCollectives::to_json(). Throws Error(kUsage) if none are recorded. Collective.
  virtual std::vector<Json> recent_collectives();
  // Sets the dtype in which runnable() computes. Throws Error(kUsage) unless the model is that of a
  // checkpoint; a plan specifies the dtype itself.
  virtual void set_compute_dtype(at::ScalarType dtype) = 0;
  // Returns the tokenizer with this name, and caches it for further calls with the same name.
  // Throws the errors of make_tokenizer().
  const data::Tokenizer& tokenizer(const std::string& name);

  // Exports the model as a Hugging Face folder, with the tokenizer of the view; with
  // options.weights_only, exports only the weights. If `between` throws, no files remain.
  // Collective.
  virtual void export_hf(const std::filesystem::path& folder, const HubExport& options,
                         const Between& between) = 0;

 private:
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::string tokenizer_name_;
};

// View of tensors in the memory of ranks, which communicate in a group of all ranks.
class RankView : public ParameterView {
 public:
  at::Tensor gather(const at::Tensor& row) final;
  void run_on_all_or_fail(const std::function<void()>& body) final;

 protected:
  virtual const runtime::Group& group() const = 0;
  // Returns the values of a box of a tensor on every rank, by all-reduces of blocks of rows. For
  // each element, the rank with its first replica contributes the value. Collective.
  at::Tensor reduce(const HeldParameter& parameter, const mesh::Box& box);
  // Returns the memory use of each rank, by rank. `own` is the memory use of this rank. Collective.
  std::vector<HeldBytes> gather_bytes(const HeldBytes& own);
};

// Prefix of a gradient's name, for example in "grad.model.norm.weight".
inline constexpr std::string_view kGradientPrefix = "grad.";

// Returns a session with all commands, including those that read values.
Session session_of(std::unique_ptr<ParameterView> view, SessionOptions options);

// Returns the session's view as a ParameterView. Throws Error(kInternal) if the view is of another
// class.
ParameterView& values_of(Session& session);

// Returns the number of optimizer updates of a parameter: the value of its optimizer state "step"
// or, without this state, the step of the checkpoint or job. Returns nullopt if neither is known.
// Collective.
std::optional<double> step_of(Session& session, const HeldParameter& parameter);

}  // namespace am::values
