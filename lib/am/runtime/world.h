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
  // Returns a world of `size` ranks of which only `rank` exists: every collective completes
  // immediately, as if all ranks had this rank's tensors (fake_engine.h). Serves to run one rank's
  // part of a step, usually on the meta device, where tensors have no values.
  static World fake(int64_t rank, int64_t size, c10::Device device = c10::Device(c10::kMeta));
  // Collective: joins the job that the launcher's environment describes. If the environment has
  // launch::kDryRunVariable, returns fake(here.rank, here.world_size, kCPU) instead. If
  // ranks cannot join, throws Error(kPeer), which names the address, or the ranks that did not
  // arrive in time. Also throws the errors of make_engines.
  static World connect(const launch::RankEnvironment& here, const WorldOptions& options);
  // Collective: as connect, but the ranks exchange addresses through `store`: for ranks within one
  // process, or over an existing connection.
  static World meet_in(const launch::RankEnvironment& here, c10::intrusive_ptr<c10d::Store> store,
                       const WorldOptions& options);
  // Collective: as meet_in, but uses `engines` instead of those for `options.backend`.
  static World meet_in(const launch::RankEnvironment& here, c10::intrusive_ptr<c10d::Store> store,
                       const WorldOptions& options, Engines engines);

  int64_t rank() const;
  int64_t size() const;
  bool is_fake() const;  // whether fake() has made this world
  // Returns the launcher's description of this rank. For World::single(), it describes a world of
  // one rank.
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
  // be equal on all `ranks` and unique in the world. Throws Error(kPeer).
  Group make_group(const std::string& name, std::vector<int64_t> ranks) const;
  // As make_group, but always creates separate connections. If `backend` is empty, uses the world's
  // backend.
  Group new_group(const std::string& name, std::vector<int64_t> ranks, const GroupOptions& options,
                  const std::string& backend = {}) const;
  // Returns "NAME/1" at the first call, "NAME/2" at the second, and so on. All ranks of the world,
  // or of the only group that uses NAME, must call it in the same order, so that a call returns
  // the same name on all of them.
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
// if all are of kind kPeer, rethrows the first one. Sets up c10d for ranks in threads; see
// Note [Flight recorder].
void run_threads(int64_t size, const std::function<void(int64_t rank)>& body);

// Runs `body` as `size` ranks in threads, connected by Gloo. For tests, and for tools that hold a
// small sharded model in one process.
void run_ranks(int64_t size, const std::function<void(const World&)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace am::runtime
