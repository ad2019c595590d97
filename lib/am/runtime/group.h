// A process group as a value: which ranks, which of them this is, and the collectives between them.
//
// Collectives run on c10d (Gloo on CPU). A group of one rank communicates nothing and needs no
// backend, so callers never ask for the size first. Every failure is an am::Error(kPeer) that names
// the collective and the group.
//
//   group.all_reduce(loss_sum);                    // in place
//   Pending gathered = group.all_gather_async(full, shard);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace am::runtime {

enum class ReduceOp { kSum, kMax };

// A collective under way. Must be waited for before its tensors are touched; wait() is idempotent.
class Pending {
 public:
  Pending() = default;
  Pending(c10::intrusive_ptr<c10d::Work> work, std::string what, std::function<void()> finish = {});

  void wait();
  bool active() const { return work_.defined() || finish_; }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::string what_;
  std::function<void()> finish_;  // local work that completes the collective
};

class Group {
 public:
  // A group of one.
  Group();
  Group(std::string name, std::vector<int64_t> ranks, int64_t index,
        c10::intrusive_ptr<c10d::Backend> backend);

  const std::string& name() const { return name_; }
  const std::vector<int64_t>& ranks() const { return ranks_; }
  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  int64_t index() const { return index_; }

  // In place on a contiguous tensor.
  void all_reduce(at::Tensor tensor, ReduceOp op = ReduceOp::kSum) const;
  Pending all_reduce_async(at::Tensor tensor, ReduceOp op = ReduceOp::kSum) const;

  // `out` holds size() times `in`'s elements, in index order; both contiguous, of one dtype. `in`
  // may be this rank's own part of `out`.
  void all_gather(at::Tensor out, at::Tensor in) const;
  Pending all_gather_async(at::Tensor out, at::Tensor in) const;

  // `in` holds size() parts of `out`'s elements; `out` receives the sum of every rank's part number
  // index(). The sum runs in index order, so that it is the same bits every time.
  void reduce_scatter(at::Tensor out, at::Tensor in) const;
  Pending reduce_scatter_async(at::Tensor out, at::Tensor in) const;

  // From the group's rank `root` (an index) to all.
  void broadcast(at::Tensor tensor, int64_t root = 0) const;
  // Every rank's text, in index order.
  std::vector<std::string> all_gather_text(const std::string& text) const;
  void barrier() const;

 private:
  std::string describe(const char* collective) const;

  std::string name_;
  std::vector<int64_t> ranks_;
  int64_t index_ = 0;
  c10::intrusive_ptr<c10d::Backend> backend_;
};

}  // namespace am::runtime
