#include "am/predict/memory/staging.h"

#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/config/optimizer.h"
#include "am/formats/torch_slice.h"
#include "am/layout/precision.h"
#include "am/layout/replicas.h"
#include "am/run_folder/shard_index.h"
#include "am/run_folder/writers.h"

namespace am::predict {

namespace {

struct CopiedBox {
  Shape shape;
  int64_t replica = 0;
};

}  // namespace

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
  // The save's id has 16 digits (base/host.h).
  uint64_t bytes = run_folder::data_file_label(std::string(16, '0'), rank).size();
  for (size_t i = 0; i < all.size(); ++i) {
    if (writers[i] != all[i].replica) continue;
    bytes = formats::place_slice(dtype, all[i].shape, bytes).end;
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace am::predict
