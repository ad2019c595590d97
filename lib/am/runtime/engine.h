// The interface between automesh and c10d's process groups: an engine creates the communicators of
// one kind of device.
//
//   "gloo"        tensors in host memory; in every build (gloo_engine.h)
//   "nccl"        tensors on GPUs; in the plugin libautomesh_cuda.so, loaded on demand
//   "cuda:gloo"   tensors on GPUs, through host memory (staged_engine.h)
//
// PyTorch's backend string selects the engine of each device (config/backend.h).
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

// Options of a communicator.
struct GroupOptions {
  std::chrono::milliseconds timeout{0};  // time limit of each collective
  // For NCCL: whether buffers from Group::allocate are registered with the communicator, so that
  // collectives need no staging copy (Megatron's nccl_ub).
  bool user_buffers = false;
  // For NCCL: whether collectives run on a high-priority stream, as FSDP2's all-gather and
  // reduce-scatter do.
  bool high_priority_stream = false;
  // Whether the group sends messages from index 0 to index 1 (channel.h) and runs no collectives.
  // If its messages go through shared memory, the group then needs no connections.
  bool messages_only = false;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual std::string name() const = 0;
  // Returns the device of this rank's tensors: the host, or the GPU of its local rank.
  virtual c10::Device device() const = 0;
  // Connects the ranks of `group`, in which this rank has index `index`; collective. The ranks
  // exchange their addresses through `store`, which no other group uses. Throws std::exception.
  virtual c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> store,
                                                    const CommunicatorId& group, int64_t index,
                                                    const GroupOptions& options) = 0;
  // Returns a handle of a collective that runs asynchronously to the host, such as NCCL's. Another
  // thread may poll the handle's isCompleted(). The handle does not keep the collective's tensors
  // alive. Returns null for engines whose wait() blocks the host.
  virtual c10::intrusive_ptr<c10d::Work> observer(
      const c10::intrusive_ptr<c10d::Work>& /*work*/) const {
    return {};
  }
};

using config::BackendSpec;
using config::parse_backend;

// The engines that a backend string names, initialised for this rank. An engine is null if the
// string names none for its kind of device.
struct Engines {
  std::shared_ptr<Engine> cpu;
  std::shared_ptr<Engine> accelerator;
};

// Returns the engines of `backend`. Loads the CUDA plugin if the backend needs it, and makes this
// rank's GPU the calling thread's current device. Throws Error(kUsage) as parse_backend does.
// Throws Error(kRuntime) if GPUs cannot be used; its message contains the reason, its hint an
// alternative.
Engines make_engines(const std::string& backend, const launch::RankEnvironment& here);

}  // namespace am::runtime
