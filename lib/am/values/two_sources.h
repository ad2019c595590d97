// Reads two sets of tensors side by side, a few MiB at a time, to compare them. The sets are two
// checkpoints, or a checkpoint and the model in the memory of the session's ranks.
//
//   const Side here = opened(session);
//   const Side there = Side::at("checkpoints/step-200");
//   for_each_pair(session, here, a, there, b, compare);     // compare(number, of_a, of_b)
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/stored/tensor_source.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Opens the weights at a path. Throws Error(kUsage) if the path leads to a plan or to a running
// job.
std::unique_ptr<stored::TensorSource> open_weights_at(const std::filesystem::path& path);

// One of the two sets of tensors that are compared.
class Side {
 public:
  // Opens the weights at a path, as open_weights_at() does.
  static Side at(const std::filesystem::path& path);

  explicit Side(const stored::TensorSource& files) : files_(&files) {}
  // Creates a side from the parameters of a model in the memory of ranks.
  explicit Side(ParameterView& ranks);

  // Returns all tensors of the side. For tensors in the memory of ranks, StoredTensor::shards is
  // empty.
  const std::vector<stored::StoredTensor>& tensors() const;
  // Returns the tensor with this name, or null.
  const stored::StoredTensor* find(std::string_view name) const;
  // Returns the files of the tensors; null if the tensors are in the memory of ranks.
  const stored::TensorSource* files() const { return files_; }
  // Returns the view of the ranks that hold the tensors; null if the tensors are in files.
  ParameterView* ranks() const { return ranks_; }
  // Returns the parameter of ranks() that the tensor `name` of tensors() describes.
  const HeldParameter& parameter(std::string_view name) const;

 private:
  Side() = default;

  std::unique_ptr<stored::TensorSource> owned_;
  const stored::TensorSource* files_ = nullptr;
  ParameterView* ranks_ = nullptr;
  std::vector<stored::StoredTensor> held_;            // parameters of ranks_, in their order
  std::map<std::string, size_t, std::less<>> index_;  // indices in held_
};

// Returns the tensors of the session's target, as one side of a comparison.
Side opened(Session& session);
// Returns the bytes of all tensors of a side.
int64_t bytes_of(const Side& side);

// Reads tensor `a` from `left` and tensor `b` from `right`, which must have the same shape, in
// blocks of whole rows. Calls `visit` with each pair of blocks in their stored dtypes, until a call
// returns false or the user interrupts this rank. The argument `number` of `visit` is the index of
// the block. If both sides are files, every rank visits all blocks, concurrently on several
// threads. If one side is in the memory of ranks, each rank reads the blocks that it stores, so
// that over all ranks each element is visited once. Not collective.
using VisitPair = std::function<bool(size_t number, const at::Tensor& a, const at::Tensor& b)>;
void for_each_pair(Session& session, const Side& left, const stored::StoredTensor& a,
                   const Side& right, const stored::StoredTensor& b, const VisitPair& visit);

// Runs `read` on each rank and returns the results of all ranks, by rank. `read` must not be
// collective. Throws Error on all ranks if `read` throws on any rank, or if the number of values
// that `read` returns is not the same on all ranks. Collective.
std::vector<std::vector<double>> on_all_ranks(ParameterView& view,
                                              const std::function<std::vector<double>()>& read);

}  // namespace am::values
