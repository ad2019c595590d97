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
//     scope.leave();                    // releases them; throws if a first rank failed elsewhere
//   }
//
// NeMo AutoModel's class of this name. Differences from it, all bug fixes:
//   - The first rank of every node runs first, as the name says (AutoModel: only rank 0 of the
//     whole job): the lowest LOCAL_RANK of each GROUP_RANK. The nodes' first ranks wait for each
//     other when they have finished, then release the ranks of their own node.
//   - An exception in a first rank's body ends the job: that rank rethrows it, and no other rank
//     runs the body: the other ranks throw Error(kPeer) quoting it (AutoModel: they run the body).
//   - A timeout is an error; no rank continues unsynchronised.
//   - Before initialize_distributed it joins the job that the environment variables describe with
//     Gloo, and leaves it again; without variables there is one rank, which is first.
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
  // Collective over `group` (null: all ranks): only its members take part, and the first of each
  // node is the lowest LOCAL_RANK among them. Returns immediately on a first rank, and on other
  // ranks after their node's first rank has left. Throws Error(kPeer) if a first rank failed, or
  // did not leave within `timeout`.
  explicit FirstRankPerNode(Distributed& dist,
                            std::chrono::milliseconds timeout = std::chrono::hours(10),
                            const runtime::Group* group = nullptr);
  FirstRankPerNode(const FirstRankPerNode&) = delete;
  FirstRankPerNode& operator=(const FirstRankPerNode&) = delete;
  // Leaves if leave() was not called, as a failure during stack unwinding. Does not throw: logs
  // failures of other nodes.
  ~FirstRankPerNode();

  bool is_first() const { return first_; }

  // Collective over the first ranks; does nothing on other ranks. Throws Error(kPeer) quoting the
  // failed first ranks of other nodes. May be called once.
  void leave();
  // Like leave(), but reports to all ranks that this first rank failed; does not throw.
  void fail(const std::string& message) noexcept;

  // Returns a function that runs `body(bool is_first)` inside a scope and returns its value.
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
  int exceptions_;  // uncaught exceptions when the scope began
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
