// The connection of this process to its peers: its rank, the world size, the store through which
// ranks exchange addresses, and the engines that create connections.
//
//   World world = World::connect(here, {.timeout = timeout});   // the store at MASTER_ADDR:PORT
//   DeviceMesh mesh(world, mesh::MeshLayout(sizes));
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
  // Timeout for joining the job, and for collectives of groups without their own timeout.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::string backend = "gloo";  // PyTorch's backend string; see parse_backend
  launch::Waiting waiting;       // called with the reason if joining takes long
};

class World {
 public:
  // Returns a world of one rank, without a store.
  static World single();
  // Returns a world of `size` ranks in which only `rank` exists. Collectives send no data and
  // complete immediately; fake_engine.h lists their results. Use a fake world to run one rank's
  // part of a step, usually on the meta device, where tensors have no values.
  static World fake(int64_t rank, int64_t size, c10::Device device = c10::Device(c10::kMeta));
  // Collective: joins the job that `here`, the launcher's environment, describes. If the process's
  // environment contains launch::kDryRunVariable, returns fake(here.rank, here.world_size, kCPU)
  // instead. Throws Error(kPeer) if ranks cannot join; the message contains the store's address, or
  // the ranks that did not arrive in time. Also throws the errors of make_engines.
  static World connect(const launch::RankEnvironment& here, const WorldOptions& options);
  // Collective: as connect, but the ranks exchange addresses through `store`. For ranks within one
  // process, or for an existing connection to a store.
  static World meet_in(const launch::RankEnvironment& here, c10::intrusive_ptr<c10d::Store> store,
                       const WorldOptions& options);
  // Collective: as meet_in, but uses `engines` instead of those for `options.backend`.
  static World meet_in(const launch::RankEnvironment& here, c10::intrusive_ptr<c10d::Store> store,
                       const WorldOptions& options, Engines engines);

  int64_t rank() const;
  int64_t size() const;
  bool is_fake() const;  // whether fake() created this world
  // Returns the launcher's description of this rank. After World::single(), it is the description
  // of a world of one rank.
  const launch::RankEnvironment& environment() const;
  std::chrono::milliseconds timeout() const;
  const std::string& backend() const;
  // Returns the device of this rank's model: its GPU if the backend serves GPUs, otherwise the
  // host.
  c10::Device device() const;
  // Returns the group of all ranks; in a world of one rank, it has one rank and no connections.
  const Group& group() const;
  Progress& progress() const;
  const std::shared_ptr<GroupContext>& context() const;
  // Returns the store of the job; may be null in a world of one rank.
  const c10::intrusive_ptr<c10d::Store>& store() const;

  // Creates a group; collective among `ranks`, which must include this rank. A group of one rank
  // has no connections; a group of all ranks in order shares the world's connections. `name` must
  // be equal on all `ranks` and unique in the world. Throws Error(kPeer) if ranks do not arrive in
  // time or cannot be connected.
  Group make_group(const std::string& name, std::vector<int64_t> ranks) const;
  // As make_group, but uses `options`, and never shares the world's connections. If `backend` is
  // empty, uses the world's backend.
  Group new_group(const std::string& name, std::vector<int64_t> ranks, const GroupOptions& options,
                  const std::string& backend = {}) const;
  // Returns "NAME/1" at this rank's first call with NAME, "NAME/2" at the second, and so on. Ranks
  // that need equal names for a group must have made equally many earlier calls with NAME.
  std::string unique_name(const std::string& name) const;

  // Aborts every group's communicator, so that no rank waits for this rank: other ranks'
  // collectives fail.
  void abort() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Runs `body(rank)` in `size` threads of this process. If threads fail, rethrows the first error
// that is not of kind kPeer, because kPeer errors are consequences of another rank's failure;
// if all errors are of kind kPeer, rethrows the first error. Switches off c10d's flight recorder;
// see Note [Flight recorder] in world.cpp.
void run_threads(int64_t size, const std::function<void(int64_t rank)>& body);

// Runs `body` as `size` ranks in threads, connected by Gloo. For tests, and for tools that hold a
// small sharded model in one process.
void run_ranks(int64_t size, const std::function<void(const World&)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace am::runtime
