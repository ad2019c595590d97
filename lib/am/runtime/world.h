// How this process meets its peers: its rank, the world's size, and the store they exchange
// addresses through.
//
//   World world = World::connect(environment, timeout);          // TCPStore at
//   MASTER_ADDR:MASTER_PORT DeviceMesh mesh(world, MeshLayout(sizes));
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "am/launch/environment.h"
#include "am/runtime/group.h"

namespace gloo::transport {
class Device;
}

namespace am::runtime {

class World {
 public:
  // One rank, no store.
  static World single();
  // Joins the job that the launcher's environment describes; rank 0 serves the store. Throws
  // Error(kPeer) that names the address when the peers do not all arrive in time.
  static World connect(const launch::RankEnvironment& environment,
                       std::chrono::milliseconds timeout);
  // A rank among others of this process, which share `store`.
  static World in_process(int64_t rank, int64_t size, c10::intrusive_ptr<c10d::Store> store,
                          std::chrono::milliseconds timeout);

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }

  // A Gloo group of the given ranks, of which this is one. `name` must be the same on all of them
  // and unique in the world.
  Group make_group(const std::string& name, std::vector<int64_t> ranks) const;

 private:
  int64_t rank_ = 0;
  int64_t size_ = 1;
  std::chrono::milliseconds timeout_{0};
  std::shared_ptr<::gloo::transport::Device> device_;  // its thread and socket serve all groups
  c10::intrusive_ptr<c10d::Store> store_;
};

// Runs `body` as `size` ranks in threads of this process, connected by Gloo; rethrows the first
// failure. For tests, and for tools that hold a small sharded model in one process.
void run_ranks(int64_t size, const std::function<void(const World&)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace am::runtime
