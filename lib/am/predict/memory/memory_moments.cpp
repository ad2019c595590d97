#include "am/predict/memory/memory_moments.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/config/optimizer.h"
#include "am/formats/torch_slice.h"
#include "am/layout/precision.h"
#include "am/layout/quantization.h"
#include "am/layout/replicas.h"
#include "am/layout/units.h"
#include "am/model/gpu_operators.h"
#include "am/run_folder/shard_index.h"
#include "am/run_folder/writers.h"

namespace am::predict {
namespace {

// Rounds the result of a formula to whole bytes. Results of absurdly large plans become kMostBytes
// instead of overflowing int64_t.
int64_t to_bytes(double bytes) {
  return std::llround(std::min(bytes, static_cast<double>(kMostBytes)));
}

struct CopiedBox {
  Shape shape;
  int64_t replica = 0;
};

// Returns the bytes of a rank's staging buffer for asynchronous checkpoints (checkpoint.async;
// checkpoint/background_saver.h), which is allocated for the whole job. The buffer has the size of
// the rank's data file: shards of parameters and optimizer states, with the overhead of the archive
// format. If several ranks hold a shard, the file of only one rank contains the shard. The result
// excludes the optimizer's global values in rank 0's file and the buffer's alignment.
int64_t staging_bytes(const config::Plan& plan, const layout::Layout& layout, int64_t rank) {
  const std::string& dtype = layout::resolve_precision(plan).storage;
  const auto element = static_cast<int64_t>(layout::dtype_size(dtype));
  const layout::ReplicaAxes in_units = layout::replica_axes(layout, /*ignored=*/false);
  const layout::ReplicaAxes in_none = layout::replica_axes(layout, /*ignored=*/true);
  std::vector<CopiedBox> all;
  std::vector<run_folder::HeldBox> held;
  for (const layout::ParameterLayout& parameter : layout.parameters) {
    if (!layout.holds(rank, parameter)) continue;
    const layout::ReplicaAxes& axes = parameter.ignored ? in_none : in_units;
    const std::string_view axis = parameter.expert_parallel() ? axes.experts : axes.dense;
    const int64_t ranks = axis.empty() ? 1 : layout.mesh.group_size(axis);
    const int64_t index = axis.empty() ? 0 : layout.mesh.index(rank, axis);
    const size_t tensors =
        1 + (parameter.trainable
                 ? config::state_names(plan.optimizer, parameter.orthogonalized).size()
                 : 0);
    for (const layout::LocalShard& part : parameter.parts(layout.mesh, rank)) {
      if (part.box.numel() == 0) continue;
      const run_folder::HeldBox box = {part.box.numel() * element, ranks * part.copies,
                                       cat(axis, " x ", part.copies)};
      for (size_t i = 0; i < tensors; ++i) {
        all.push_back({part.box.shape, index * part.copies + part.copy});
        held.push_back(box);
      }
    }
  }
  const std::vector<int64_t> writers = run_folder::choose_writers(held);
  // The label contains the id of the save, which has 16 digits (unique_id() in base/host.h).
  uint64_t bytes = run_folder::data_file_label(std::string(16, '0'), rank).size();
  for (size_t i = 0; i < all.size(); ++i) {
    if (writers[i] != all[i].replica) continue;
    bytes = formats::place_slice(dtype, all[i].shape, bytes).end;
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

MemorySnapshot& MemorySnapshot::operator+=(const MemorySnapshot& more) {
  gradients += more.gradients;
  activations += more.activations;
  logits += more.logits;
  unsharded += more.unsharded;
  communication += more.communication;
  return *this;
}

// Optimizer states, and parameters that are not quantized, are flat tensors of one dtype, so their
// bytes follow from their numbers of elements. Stored gradients are not constant: they are live
// only from backward until the next step (parallel/param_group/gradient_reducer.h).
MemoryComponents constant_bytes(const config::Plan& plan, const model::ModelConfig& config,
                                const layout::Layout& layout, const ActivationContext& context,
                                const StepUnits& step, int64_t rank) {
  const layout::StepPrecision precision = layout::resolve_precision(plan);
  const int64_t element = layout::dtype_size(precision.storage);
  MemoryComponents bytes;
  bytes.parameters = (step.stored_numel - step.quantized_numel) * element +
                     layout::nf4_bytes(step.quantized_numel);
  bytes.optimizer = step.state_numel * element;
  if (layout::offloads_to_host(plan.strategy)) {
    bytes.host_parameters = bytes.parameters;
    bytes.host = bytes.host_parameters + step.trained_numel * element + bytes.optimizer;
    bytes.parameters = bytes.optimizer = 0;
  }
  // RoPE's table of cosines and sines, if any layer rotates queries and keys.
  const std::vector<model::LayerSpec>& kinds = layout.inventory.spec.kinds;
  const bool rotates = std::any_of(kinds.begin(), kinds.end(), [](const model::LayerSpec& kind) {
    return kind.attention.rope >= 0;
  });
  const double table =
      rotates ? 2.0 * context.sequence * static_cast<double>(config.head_dim) : 0.0;
  bytes.other = to_bytes(table * static_cast<double>(layout::dtype_size(precision.compute)) *
                         static_cast<double>(step.stages));
  if (!context.on_host) bytes.other += model::kProductWorkspace;
  if (plan.checkpoint.async) {
    (context.on_host ? bytes.other : bytes.host) += staging_bytes(plan, layout, rank);
  }
  return bytes;
}

void MemoryMoments::record_full(std::string_view what, std::string_view of, std::string_view how,
                                const MemorySnapshot& moment) {
  MemoryComponents now = constant_;
  now.gradients = to_bytes(moment.gradients);
  now.activations = to_bytes(moment.activations);
  now.logits = to_bytes(moment.logits);
  now.unsharded = to_bytes(moment.unsharded);
  now.communication = to_bytes(moment.communication);
  if (now.total() <= peak_.total()) return;
  peak_ = now;
  fullest_ = moment;
  what_ = what;
  of_ = of;
  how_ = how;
}

RankMemory MemoryMoments::peak() const {
  return {.moment = cat(what_, of_, how_), .components = peak_};
}

}  // namespace am::predict
