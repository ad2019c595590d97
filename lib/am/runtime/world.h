// How this process meets its peers: its rank, the world's size, the store they exchange addresses
// through, and the engines that connect them.
//
//   World world = World::connect(here, {.timeout = timeout});   // the store at MASTER_ADDR:PORT
//   DeviceMesh mesh(world, MeshLayout(sizes));
//
// A World is a handle: copies share the connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "am/launch/environment/environment.h"
#include "am/launch/nodes/stores.h"
#include "am/runtime/engine.h"
#include "am/runtime/group.h"

namespace am::runtime {

struct WorldOptions {
  // Of joining, and of every collective of every group unless the group says otherwise.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::string backend = "gloo";  // see parse_backend
  launch::Waiting waiting;       // hears why joining takes long
};

class World {
 public:
  // One rank, no store.
  static World single();
  // A rank of a job that is not there: every collective is over at once and leaves its tensors as
  // they are. For one rank's part of a step on the meta device, where there is nothing to send.
  static World pretended(int64_t rank, int64_t size);
  // Collective: joins the job that the launcher's environment describes. Throws Error(kPeer) that
  // names the address, or the ranks that did not arrive in time; as make_engines besides.
  static World connect(const launch::RankEnvironment& here, const WorldOptions& options);
  // Collective: as connect, but the ranks meet in `store`: in one process, or over a connection
  // that is there already.
  static World meet_in(const launch::RankEnvironment& here, c10::intrusive_ptr<c10d::Store> store,
                       const WorldOptions& options);
  // Collective: as meet_in, with these engines instead of those that `options.backend` asks for.
  static World meet_in(const launch::RankEnvironment& here, c10::intrusive_ptr<c10d::Store> store,
                       const WorldOptions& options, Engines engines);

  int64_t rank() const;
  int64_t size() const;
  // What the launcher said about this rank; of World::single() a world of one.
  const launch::RankEnvironment& environment() const;
  std::chrono::milliseconds timeout() const;
  const std::string& backend() const;
  // Where this rank's model lives: its GPU where the backend serves GPUs, else the host.
  c10::Device device() const;
  // All ranks. Made by connect; for size 1 a group of one.
  const Group& group() const;
  Progress& progress() const;
  const std::shared_ptr<GroupContext>& context() const;
  // Null for World::single().
  const c10::intrusive_ptr<c10d::Store>& store() const;

  // Collective among `ranks`, of which this is one. A group of one rank has no connections, one of
  // all ranks in order has the world's. `name` must be the same on all of them and unique in the
  // world. Throws Error(kPeer).
  Group make_group(const std::string& name, std::vector<int64_t> ranks) const;
  // As make_group, with connections of its own; `backend` empty: the world's.
  Group new_group(const std::string& name, std::vector<int64_t> ranks, const GroupOptions& options,
                  const std::string& backend = {}) const;
  // "NAME/1", "NAME/2", ...: unique where all ranks of the world, or of a group that is its only
  // user, ask in the same order.
  std::string unique_name(const std::string& name) const;

  // Collective by nature: aborts every group's communicator, so that no rank waits for this one.
  void abort() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Runs `body(rank)` in `size` threads of this process and rethrows the first failure; Error(kPeer),
// which tells of another rank's, only where there is no other. What ranks in
// threads need of c10d is set up; see Note [Flight recorder].
void run_threads(int64_t size, const std::function<void(int64_t rank)>& body);

// Runs `body` as `size` ranks in threads, connected by Gloo. For tests, and for tools that hold a
// small sharded model in one process.
void run_ranks(int64_t size, const std::function<void(const World&)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace am::runtime
