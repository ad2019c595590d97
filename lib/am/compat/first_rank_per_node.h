// One rank of each node goes first, the others follow: for a download or a cache that the ranks of
// a node share.
//
//   first_rank_per_node(dist, [&](bool first) { load_tokenizer(path); });      // every rank calls
//   it
//
//   auto load = FirstRankPerNode::decorate(dist, [&](bool first) { return read_tokens(path); });
//   auto tokens = load();
//
//   {
//     FirstRankPerNode scope(dist);     // ranks that are not first wait here
//     read_tokens(path);
//     scope.leave();                    // lets them go on; throws where another node's first
//     failed
//   }
//
// NeMo AutoModel's class of this name. Differences from it, all of them mended faults:
//   - The first rank of every node goes first, as the name says (it was rank 0 of the whole job):
//   the
//     lowest LOCAL_RANK of each GROUP_RANK. The nodes' first ranks wait for each other when they
//     have finished, then let their own node's ranks go on.
//   - An exception in a first rank's body ends the job: it leaves that rank as it is, and no other
//     rank runs the body: they throw Error(kPeer) that quotes it. (The others ran it.)
//   - A timeout is an error; nobody goes on unsynchronised.
//   - Before initialize_distributed it joins the job of the variables by Gloo and leaves it again;
//     without any variables there is one rank, which is first.
// An exception in the body of a rank that is not first is that rank's own affair, as in AutoModel.
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
  // Collective over `group` (null: all ranks), whose members alone take part: the first of each
  // node is the lowest LOCAL_RANK among them. Other ranks have no such group and do not call it. A
  // first rank returns at once, the others when their node's first rank has left. Throws
  // Error(kPeer) when a first rank failed, or did not leave within `timeout`.
  explicit FirstRankPerNode(Distributed& dist,
                            std::chrono::milliseconds timeout = std::chrono::hours(10),
                            const runtime::Group* group = nullptr);
  FirstRankPerNode(const FirstRankPerNode&) = delete;
  FirstRankPerNode& operator=(const FirstRankPerNode&) = delete;
  // Leaves, if leave was not called: as a failure when an exception is passing by. Cannot throw:
  // where another node failed it logs that.
  ~FirstRankPerNode();

  bool is_first() const { return first_; }

  // Collective among the first ranks; no work for others. Throws Error(kPeer) that quotes the first
  // ranks of other nodes that failed. Only once.
  void leave();
  // As leave, but tells all that this first rank failed; does not throw.
  void fail(const std::string& message) noexcept;

  // A function that runs `body(bool is_first)` inside a scope and returns its value.
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
  int exceptions_;  // in flight when the scope began
  runtime::Group node_{"node"};
  runtime::Group firsts_{"first ranks"};
};

// Calls body(bool is_first) on every rank, each node's first rank before the others of its node.
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
      scope.fail("an exception that is no std::exception");
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
