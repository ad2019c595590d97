// Tensors in the memory of a training program of another framework, on all ranks of the program.
//
//   ProgramTensors tensors(world);
//   tensors.set(own);                     // every rank describes its parts of the tensors
//   ProgramView view(tensors, facts);
//
// Tensors have the names that am-repl uses. A parameter or buffer NAME keeps its name in the
// program. "grad.NAME" is the gradient of parameter NAME, and "optim.state.NAME.KIND" is an
// optimizer state of this parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/shape.h"
#include "am/inspect/tensor_catalog.h"
#include "am/mesh/shard.h"
#include "am/runtime/world.h"

namespace am::values {

// One rank's part of a tensor.
struct ProgramTensor {
  std::string name;
  at::Tensor part;  // values of the part, in the memory of the program
  Shape shape;      // global shape
  Shape offset;     // position of the part in the global tensor
  std::vector<std::pair<std::string, mesh::Placement>> placements;  // see HeldParameter::placements

  mesh::Box box() const { return {offset, part.sizes().vec()}; }
};

class ProgramTensors {
 public:
  explicit ProgramTensors(runtime::World world) : world_(std::move(world)) {}
  ProgramTensors(const ProgramTensors&) = delete;
  ProgramTensors& operator=(const ProgramTensors&) = delete;

  // Replaces the tensors of this rank by `own`. Ranks exchange the descriptions of their tensors
  // (names, dtypes, boxes, placements) only if the description of at least one rank has changed.
  // Throws Error(kUsage) on all ranks if the shapes of a tensor differ between ranks, or if the
  // parts of a tensor overlap or do not cover the tensor; this object then contains no tensors.
  // Parts with equal boxes are replicas. Collective.
  void set(std::vector<ProgramTensor> own);

  // Part of a tensor on this rank.
  struct Own {
    at::Tensor values;
    mesh::Box box;
    bool first_replica = true;  // whether no lower rank has an equal box
  };

  const std::vector<inspect::HeldParameter>& parameters() const { return parameters_; }
  std::span<const inspect::HeldParameter> states() const { return states_; }
  // Returns this rank's parts of a tensor; none if this rank has no part of it.
  std::span<const Own> own(std::string_view name) const;
  // Returns the 2-norm of all gradients together; NaN if there are none. Collective.
  double gradient_norm() const;
  const runtime::World& world() const { return world_; }

 private:
  void read(const std::vector<std::string>& descriptions);
  void find_replicas(const std::vector<ProgramTensor>& own);

  runtime::World world_;
  std::optional<uint64_t> described_;                   // hash of this rank's last description
  std::deque<std::vector<inspect::HeldShard>> shards_;  // storage of HeldParameter::shards
  std::vector<inspect::HeldParameter> parameters_, states_;
  std::vector<bool> first_replica_;  // Own::first_replica of each tensor of set(), in that order
  std::map<std::string, std::vector<Own>, std::less<>> own_;
};

}  // namespace am::values
