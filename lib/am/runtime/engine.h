// The interface between automesh and c10d's process groups: an engine creates the communicators of
// one kind of device.
//
//   "gloo"        tensors in host memory; in every build (gloo_engine.h)
//   "nccl"        tensors on GPUs; in the plugin libautomesh_cuda.so, loaded on demand
//   "cuda:gloo"   tensors on GPUs, through host memory (staged_engine.h)
//
// A backend string, in PyTorch's format, selects the engine of each kind of device
// (config/backend.h).
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
  // Whether the group only sends messages from index 0 to index 1 (channel.h) and runs no
  // collectives. If shared memory carries the messages, the group then opens no connections.
  bool messages_only = false;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual std::string name() const = 0;
  // Returns the device of this rank's tensors: the host, or the GPU of its local rank.
  virtual c10::Device device() const = 0;
  // Collective: connects the ranks of `group`, in which this rank has index `index`. Returns the
  // backend that runs the group's collectives. The ranks exchange their addresses through `store`,
  // which no other group uses. Throws std::exception.
  virtual c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> store,
                                                    const CommunicatorId& group, int64_t index,
                                                    const GroupOptions& options) = 0;
  // Returns a handle of a collective that runs asynchronously to the host, as NCCL's collectives
  // do. Another thread may poll the handle's isCompleted(). The handle does not keep the
  // collective's tensors alive. Returns null if the engine's collectives block the host in wait().
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
// Throws Error(kRuntime) if the backend needs GPUs and they cannot be used; the message contains
// the reason, and the hint an alternative.
Engines make_engines(const std::string& backend, const launch::RankEnvironment& here);

}  // namespace am::runtime
