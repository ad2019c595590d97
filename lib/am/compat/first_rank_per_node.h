// Runs code on one rank of each node first, then on the node's other ranks, for example a download
// into a cache that the ranks of a node share.
//
//   // Every rank calls:
//   first_rank_per_node(dist, [&](bool first) { load_tokenizer(path); });
//
//   auto load = FirstRankPerNode::decorate(dist, [&](bool first) { return read_tokens(path); });
//   auto tokens = load();
//
//   {
//     FirstRankPerNode scope(dist);     // ranks that are not first wait here
//     read_tokens(path);
//     scope.leave();    // releases them; throws if the first rank of another node failed
//   }
//
// NeMo AutoModel has a class of this name. Differences from it, all bug fixes:
//   - The first rank of every node runs first, as the name says: the lowest LOCAL_RANK of each
//     GROUP_RANK. (In AutoModel, only rank 0 of the job runs first.) When they have finished, the
//     first ranks of all nodes wait for each other, then release the ranks of their own node.
//   - An exception in the body of a first rank ends the job: that rank rethrows the exception, and
//     the ranks that wait do not run the body but throw Error(kPeer), which quotes it. (In
//     AutoModel, they run the body.)
//   - A timeout is an error; no rank continues unsynchronised.
//   - If no job is joined yet, the class joins the job that the environment variables describe,
//     with Gloo, and leaves it at the end. Without these variables, the process is the only rank,
//     and so the first one.
// As in AutoModel, an exception in the body of a rank that is not first affects only that rank.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "am/compat/distributed.h"

namespace am::compat {

class FirstRankPerNode {
 public:
  // Waits until all ranks of `group` have arrived. Ranks that are not the first of their node then
  // wait until their node's first rank has called leave(). The first rank of a node has the lowest
  // LOCAL_RANK among the node's ranks in `group`. Throws Error(kPeer) if a first rank failed or did
  // not leave within `timeout`. Collective over `group` (null: over all ranks).
  explicit FirstRankPerNode(Distributed& dist,
                            std::chrono::milliseconds timeout = std::chrono::hours(10),
                            const runtime::Group* group = nullptr);
  FirstRankPerNode(const FirstRankPerNode&) = delete;
  FirstRankPerNode& operator=(const FirstRankPerNode&) = delete;
  // Calls leave() if it was not called; calls fail() instead if an exception is leaving the scope.
  // Does not throw: failures of other nodes are logged.
  ~FirstRankPerNode();

  bool is_first() const { return first_; }

  // Ends the scope. On first ranks, waits for the first ranks of all nodes and releases the other
  // ranks of this node. Throws Error(kPeer), which quotes the errors, if the first rank of another
  // node failed. May be called once.
  void leave();
  // Does what leave() does, but reports to all ranks that this first rank failed. Does not throw.
  void fail(const std::string& message) noexcept;

  // Returns a function that calls `body(bool is_first)` as first_rank_per_node() does, and returns
  // its value.
  template <typename Body>
  static auto decorate(Distributed& dist, Body body,
                       std::chrono::milliseconds timeout = std::chrono::hours(10),
                       const runtime::Group* group = nullptr);

 private:
  void connect(std::chrono::milliseconds timeout, const runtime::Group* group);
  void follow();
  std::string settle(const std::string& failure);

  Distributed& dist_;
  bool first_ = true;
  bool left_ = false;
  bool joined_here_ = false;
  int exceptions_;  // number of uncaught exceptions when the scope began
  runtime::Group node_{"node"};
  runtime::Group firsts_{"first ranks"};
};

// Calls body(bool is_first) on every rank, on each node's first rank before the node's other ranks.
template <typename Body>
auto first_rank_per_node(Distributed& dist, Body&& body,
                         std::chrono::milliseconds timeout = std::chrono::hours(10),
                         const runtime::Group* group = nullptr) {
  FirstRankPerNode scope(dist, timeout, group);
  const auto guarded = [&] {
    try {
      return std::forward<Body>(body)(scope.is_first());
    } catch (const std::exception& error) {
      scope.fail(error.what());
      throw;
    } catch (...) {
      scope.fail("an exception that is not a std::exception");
      throw;
    }
  };
  if constexpr (std::is_void_v<decltype(guarded())>) {
    guarded();
    scope.leave();
  } else {
    auto result = guarded();
    scope.leave();
    return result;
  }
}

template <typename Body>
auto FirstRankPerNode::decorate(Distributed& dist, Body body, std::chrono::milliseconds timeout,
                                const runtime::Group* group) {
  return [&dist, body = std::move(body), timeout, group] {
    return first_rank_per_node(dist, body, timeout, group);
  };
}

}  // namespace am::compat
