#include "am/compat/first_rank_per_node.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/compat/distributed_utils.h"
#include "am/compat/init_utils.h"

namespace am::compat {

namespace {

struct Place {
  int64_t node = 0, local_rank = 0, rank = 0;
};

// Returns the nodes and local ranks of all ranks in the group, ordered by node, then by local rank.
std::vector<Place> all_places(const Distributed& dist, const runtime::Group* group) {
  const auto& here = dist.world().environment();
  std::vector<Place> places;
  for (const Json& place :
       all_gather_object(dist, {here.node_rank, here.local_rank, here.rank}, group)) {
    places.push_back(
        {place.at(0).get<int64_t>(), place.at(1).get<int64_t>(), place.at(2).get<int64_t>()});
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tie(a.node, a.local_rank, a.rank) < std::tie(b.node, b.local_rank, b.rank);
  });
  return places;
}

}  // namespace

FirstRankPerNode::FirstRankPerNode(Distributed& dist, std::chrono::milliseconds timeout,
                                   const runtime::Group* group)
    : dist_(dist), exceptions_(std::uncaught_exceptions()) {
  if (!dist_.is_initialized() && get_world_size_safe(dist_) > 1) {
    initialize_distributed(dist_, "gloo", timeout);
    joined_here_ = true;
  }
  if (!dist_.is_initialized() || group_or_world(dist_, group).size() == 1) return;
  try {
    connect(timeout, group);
    if (!first_) follow();
  } catch (...) {
    // Leaves the job here, because the destructor does not run if the constructor throws.
    if (joined_here_) destroy_global_state(dist_);
    throw;
  }
}

void FirstRankPerNode::follow() {
  const std::string failures = node_.broadcast_text("", 0);
  left_ = true;
  if (!failures.empty()) {
    throw Error(
        ErrorKind::kPeer,
        cat("the code under FirstRankPerNode failed on the first rank of a node: ", failures));
  }
}

void FirstRankPerNode::connect(std::chrono::milliseconds timeout, const runtime::Group* group) {
  const runtime::World& world = dist_.world();
  const std::string name = world.unique_name(
      cat("first_rank_per_node/", group_or_world(dist_, group).communicator_name()));
  const int64_t node = world.environment().node_rank;
  std::vector<int64_t> own, firsts;
  int64_t last_node = -1;
  for (const Place& place : all_places(dist_, group)) {
    if (place.node != last_node) firsts.push_back(place.rank);
    if (place.node == node) own.push_back(place.rank);
    last_node = place.node;
  }
  first_ = own.front() == world.rank();
  const runtime::GroupOptions options = {timeout};
  node_ = world.new_group(cat(name, "/node ", node), own, options, "gloo");
  if (first_) firsts_ = world.new_group(cat(name, "/first ranks"), firsts, options, "gloo");
}

// On the first rank of a node: exchanges `failure` ("" means success) with the first ranks of all
// nodes, broadcasts all failures to the ranks of its own node, and returns them. The broadcast
// releases the ranks that wait in follow(). On other ranks: returns "".
std::string FirstRankPerNode::settle(const std::string& failure) {
  left_ = true;
  if (!first_) return {};
  std::vector<std::string> failures = firsts_.all_gather_text(failure);
  std::erase(failures, "");
  return node_.broadcast_text(join(failures, "; "), 0);
}

void FirstRankPerNode::leave() {
  const std::string failures = settle("");
  if (joined_here_) destroy_global_state(dist_);
  if (!failures.empty()) {
    throw Error(
        ErrorKind::kPeer,
        cat("the code under FirstRankPerNode failed on the first rank of a node: ", failures));
  }
}

void FirstRankPerNode::fail(const std::string& message) noexcept {
  try {
    settle(cat("rank ", get_rank_safe(dist_), ": ", message));
  } catch (const std::exception& error) {
    dist_.log(LogLevel::kWarning,
              cat("cannot report the failure to the other ranks: ", error.what()));
  }
  if (joined_here_) destroy_global_state(dist_);
}

FirstRankPerNode::~FirstRankPerNode() {
  if (left_) {
    if (joined_here_) destroy_global_state(dist_);
    return;
  }
  try {
    if (std::uncaught_exceptions() > exceptions_) {
      fail("the code threw an exception");
    } else {
      leave();
    }
  } catch (const std::exception& error) {
    dist_.log(LogLevel::kError, error.what());
  }
}

}  // namespace am::compat
