// Common interface to the parameters of a sharded model, for optimizers and checkpoints. Two
// classes implement the interface: ParallelModel (parallel_model.h), a decoder under a plan, and
// ShardedModule (module/sharded_module.h), a torch module.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/layout/layout.h"
#include "am/parallel/param_group/param_group.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

class ShardedParameters {
 public:
  virtual ~ShardedParameters() = default;
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  const layout::Layout& layout() const { return layout_; }
  const runtime::DeviceMesh& mesh() const { return mesh_; }
  // Returns the parameter groups of this rank: unit after unit, or bucket after bucket.
  const std::vector<ParamGroup*>& groups() const { return groups_; }
  // Whether parameters are stored in host memory while a GPU computes (offloading).
  virtual bool offloaded() const = 0;
  // Returns the text of the model's config.json; empty for a torch module.
  virtual std::string config_text() const { return {}; }

  // Calls visit(group, i, group.owned()[i]) for every box (rectangular block of a parameter) that
  // this rank stores, group after group.
  void for_each_owned(const std::function<void(ParamGroup&, size_t, const LocalParameter&)>& visit);
  // Collective: gathers a parameter from all ranks that store a part of it, and returns the full
  // parameter on every rank, in the storage dtype. Throws Error(kUsage) if no parameter has this
  // name.
  at::Tensor full_parameter(const std::string& name) const;
  // Collective: returns the full gradient of a trainable parameter on every rank. Call
  // full_gradient() only after a backward pass that has reduced the gradients.
  at::Tensor full_gradient(const std::string& name) const;

 protected:
  // `mesh` must outlive the object.
  ShardedParameters(layout::Layout layout, const runtime::DeviceMesh& mesh);

  void add_groups(const std::vector<std::unique_ptr<ParamGroup>>& groups);

 private:
  // Function that returns this rank's piece of a parameter, or of another tensor with the
  // parameter's shape, such as the gradient. `piece`: index of the parameter in group.pieces().
  using PieceOf = at::Tensor (*)(const ParamGroup& group, size_t piece);
  // Returns the full tensor, gathered from the pieces of all ranks.
  at::Tensor gather(const std::string& name, PieceOf piece_of) const;
  // Gathers the full tensor on the ranks of one pipeline stage. Collective over the ranks of the
  // stage that store a part of the parameter. Returns nullopt on all other ranks of the stage.
  std::optional<at::Tensor> gather_own(const layout::ParameterLayout& layout,
                                       PieceOf piece_of) const;

  friend class UnshardScope;

  layout::Layout layout_;
  const runtime::DeviceMesh& mesh_;
  std::vector<ParamGroup*> groups_;
  int unshard_scopes_ = 0;  // number of UnshardScopes that are open
};

}  // namespace am::parallel
