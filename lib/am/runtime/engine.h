// The seam between automesh and c10d's process groups: an engine makes the communicators of one
// kind of device.
//
//   "gloo"        tensors in host memory; in every build (gloo_engine.h)
//   "nccl"        tensors on GPUs; in the plugin libautomesh_cuda.so, loaded when it is asked for
//   "cuda:gloo"   tensors on GPUs, through host memory (staged_engine.h)
//
// PyTorch's backend string says which engine serves which device (config/backend.h).
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "am/config/backend.h"
#include "am/launch/environment/environment.h"
#include "am/runtime/progress.h"

namespace am::runtime {

// What a communicator is made for.
struct GroupOptions {
  std::chrono::milliseconds timeout{0};  // of one collective
  // NCCL: buffers from Group::allocate are registered with the communicator, so that collectives
  // need no staging copy (Megatron's nccl_ub).
  bool user_buffers = false;
  // NCCL: collectives run on a high-priority stream, as FSDP2's all-gather and reduce-scatter do.
  bool high_priority_stream = false;
  // Messages between two ranks alone (channel.h), from index 0 to index 1, and no collectives:
  // through shared memory they need no connections.
  bool messages_only = false;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual std::string name() const = 0;
  // Where this rank's tensors live: the host, or the GPU of its local rank.
  virtual c10::Device device() const = 0;
  // Collective among the ranks of `group`, of which this is number `index`; they meet in `store`,
  // which is theirs alone, and are connected on return. Throws std::exception.
  virtual c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> store,
                                                    const CommunicatorId& group, int64_t index,
                                                    const GroupOptions& options) = 0;
  // Where the host does not wait for a collective's end: what another thread may ask isCompleted(),
  // without keeping the collective's tensors alive. Null: waiting for `work` says all.
  virtual c10::intrusive_ptr<c10d::Work> observer(
      const c10::intrusive_ptr<c10d::Work>& /*work*/) const {
    return {};
  }
};

using config::BackendSpec;
using config::parse_backend;

// The engines that a backend string asks for, ready for this rank. Null where it asks for none.
struct Engines {
  std::shared_ptr<Engine> cpu;
  std::shared_ptr<Engine> accelerator;
};

// Loads the CUDA plugin where the spec needs it; this rank's GPU is then the calling thread's
// current one. Throws Error(kUsage) as parse_backend, and Error(kRuntime) that says what a GPU
// lacks here and what to write instead.
Engines make_engines(const std::string& backend, const launch::RankEnvironment& here);

}  // namespace am::runtime
