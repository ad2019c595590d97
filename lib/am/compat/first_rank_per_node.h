// Runs code on one rank of each node first, then on all other ranks: for example, a download into
// a cache that the ranks of a node share.
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
//     scope.leave();    // releases these ranks; throws if the first rank of another node failed
//   }
//
// NeMo AutoModel has a class of this name. Differences from AutoModel's class, all bug fixes:
//   - The first rank of every node runs first: the rank with the lowest LOCAL_RANK on the node. (In
//     AutoModel, only rank 0 of the job runs first.) After the body, the first ranks of all nodes
//     wait for each other. Then each first rank releases the ranks of its own node.
//   - An exception in the body of a first rank ends the job: the first rank rethrows the exception,
//     and all other ranks throw Error(kPeer). The waiting ranks do not run the body. (In AutoModel,
//     they do.)
//   - A timeout is an error; no rank continues unsynchronised.
//   - If no job is joined yet, and the environment variables describe a job of several ranks, the
//     class joins this job with Gloo, and leaves it at the end. Otherwise the process is the only
//     rank and therefore the first rank.
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
  // On a first rank, ends the scope unless leave() or fail() was called: calls fail() if an
  // exception is leaving the scope, otherwise leave(). Does not throw, but logs failures of other
  // nodes.
  ~FirstRankPerNode();

  bool is_first() const { return first_; }

  // Ends the scope. A first rank waits for the first ranks of all nodes, then releases the other
  // ranks of its node. Throws Error(kPeer), with the messages of all failures, if the first rank of
  // another node failed. Must be called at most once.
  void leave();
  // Ends the scope like leave(). A first rank also sends `message` to all other ranks, whose
  // constructor or leave() then throws Error(kPeer). Does not throw.
  void fail(const std::string& message) noexcept;

  // Returns a function without arguments that calls first_rank_per_node() with `body`, and returns
  // the value of `body`. `dist` and `group` must outlive the returned function.
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

// Calls body(bool is_first) on the first rank of each node, then on all other ranks. Returns the
// value of `body`. Collective over `group` (null: over all ranks).
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
