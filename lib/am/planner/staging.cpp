#include "am/planner/staging.h"

#include <algorithm>
#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/config/optimizer.h"
#include "am/formats/torch_slice.h"
#include "am/planner/precision.h"
#include "am/run_folder/shard_index.h"
#include "am/run_folder/writers.h"

namespace am::planner {

namespace {

// The axis whose ranks hold the same boxes of a parameter that tp has cut; empty: no other does.
// As parallel/data_parallel.cpp and sharded_units.cpp choose it.
std::string_view replicas_of(const Layout& layout, const ParameterLayout& parameter, bool cuts) {
  if (parameter.expert_parallel()) return parameter.ignored || !cuts ? "ep_shard" : "";
  const bool over_cp = !cuts && layout.mesh.sizes().cp > 1;
  return parameter.ignored || over_cp ? "dp_cp" : "dp_replicate";
}

struct CopiedBox {
  Shape shape;
  run_folder::HeldBox held;
  int64_t replica = 0;
};

}  // namespace

int64_t staging_bytes(const config::Plan& plan, const Layout& layout, int64_t rank) {
  const std::string& dtype = resolve_precision(plan).storage;
  const auto element = static_cast<int64_t>(dtype_size(dtype));
  const bool cuts = std::any_of(layout.parameters.begin(), layout.parameters.end(),
                                [](const auto& each) { return each.fsdp; });
  std::vector<CopiedBox> all;
  std::vector<run_folder::HeldBox> held;
  for (const ParameterLayout& parameter : layout.parameters) {
    if (!layout.holds(rank, parameter)) continue;
    const std::string_view axis = replicas_of(layout, parameter, cuts);
    const int64_t ranks = axis.empty() ? 1 : layout.mesh.group_size(axis);
    const int64_t index = axis.empty() ? 0 : layout.mesh.index(rank, axis);
    const size_t tensors =
        1 + (parameter.trainable
                 ? config::state_names(plan.optimizer, parameter.orthogonalized).size()
                 : 0);
    for (const OwnPart& part : parameter.parts(layout.mesh, rank)) {
      if (part.box.numel() == 0) continue;
      const run_folder::HeldBox box = {part.box.numel() * element, ranks * part.copies,
                                       cat(axis, " x ", part.copies)};
      for (size_t i = 0; i < tensors; ++i) {
        all.push_back({part.box.shape, box, index * part.copies + part.copy});
        held.push_back(box);
      }
    }
  }
  const std::vector<int64_t> writers = run_folder::choose_writers(held);
  // The save's id has 16 digits (base/host.h).
  uint64_t bytes = run_folder::data_file_label(std::string(16, '0'), rank).size();
  for (size_t i = 0; i < all.size(); ++i) {
    if (writers[i] != all[i].replica) continue;
    const formats::TorchSlice slice = formats::tensor_slice(dtype, all[i].shape, bytes);
    bytes += slice.before.size() + static_cast<uint64_t>(all[i].held.bytes) + slice.after.size();
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace am::planner
