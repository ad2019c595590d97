#include "am/cuda/nccl_engine.h"

#include <c10/core/DeviceGuard.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <new>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/cuda/gpu.h"
#include "am/launch/environment/nccl.h"
#include "am/runtime/nccl_environment.h"

namespace am::cuda {

namespace {

using c10d::ProcessGroupNCCL;

// An NCCL process group whose destructor ends its communicator. If there was no error, the
// destructor calls shutdown(), so that peers still receive the data that this rank has sent.
// Otherwise the destructor calls abort(), because peers may never arrive.
class NcclGroup final : public ProcessGroupNCCL {
 public:
  using ProcessGroupNCCL::ProcessGroupNCCL;

  ~NcclGroup() override {
    if (ended_) return;
    try {
      if (std::uncaught_exceptions() == 0 && getError() == c10d::ErrorType::SUCCESS) {
        shutdown();
      } else {
        ProcessGroupNCCL::abort();
      }
    } catch (const std::exception&) {
      // An error here is ignored, because the rank already reports the error that ended the group.
    }
  }

  void abort() override {
    ended_ = true;
    ProcessGroupNCCL::abort();
  }

 private:
  std::atomic<bool> ended_{false};
};

class NcclEngine final : public runtime::Engine {
 public:
  explicit NcclEngine(c10::Device device) : device_(device) {}

  std::string name() const override { return "nccl"; }
  c10::Device device() const override { return device_; }

  c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> store,
                                            const runtime::CommunicatorId& group, int64_t index,
                                            const runtime::GroupOptions& options) override {
    auto nccl = ProcessGroupNCCL::Options::create(options.high_priority_stream);
    nccl->timeout = options.timeout;
    nccl->group_name = group.name;
    nccl->global_ranks_in_group.assign(group.ranks.begin(), group.ranks.end());
    const c10::DeviceGuard guard(device_);
    auto backend =
        c10::make_intrusive<NcclGroup>(std::move(store), static_cast<int>(index),
                                       static_cast<int>(group.ranks.size()), std::move(nccl));
    // Creates the communicator now and not at the first collective, because all ranks are known to
    // have arrived, and because only an existing communicator can register user buffers.
    backend->eagerConnectSingleDevice(device_);
    return backend;
  }

  c10::intrusive_ptr<c10d::Work> observer(
      const c10::intrusive_ptr<c10d::Work>& work) const override {
    const auto* nccl = dynamic_cast<const ProcessGroupNCCL::WorkNCCL*>(work.get());
    if (nccl == nullptr) return {};
    // Returns a copy of the work, like the one that c10d's watchdog keeps. Unlike the work itself,
    // a copy does not keep the memory of the output tensors alive.
    return c10::make_intrusive<ProcessGroupNCCL::WorkNCCL>(*nccl);
  }

 private:
  c10::Device device_;
};

// Throws Error(kRuntime) if libtorch was built with another nccl.h than this plugin.
// ProcessGroupNCCL::Options contains an ncclConfig_t, whose size grows with NCCL's versions. The
// constructor of Options is in libtorch and uses the layout of libtorch's nccl.h. The function
// calls this constructor and checks that members after the ncclConfig_t are where this plugin
// expects them.
void check_nccl_header() {
  using Options = ProcessGroupNCCL::Options;
  constexpr size_t kSlack = 1024;  // for the fields of a larger ncclConfig_t
  alignas(Options) std::byte room[sizeof(Options) + kSlack] = {};
  auto* options = new (room) Options();
  const bool same = options->split_color == NCCL_SPLIT_NOCOLOR - 1 && !options->split_from;
  if (!same) {
    throw Error(ErrorKind::kRuntime,
                cat("the CUDA plugin was built with the nccl.h of NCCL ", NCCL_MAJOR, ".",
                    NCCL_MINOR, ".", NCCL_PATCH, ", but libtorch with that of another version"),
                "build automesh with the nccl.h of libtorch's NCCL (-DAM_NCCL_INCLUDE_DIR=DIR)");
  }
  options->~Options();
}

}  // namespace

std::shared_ptr<runtime::Engine> make_nccl_engine(const launch::RankEnvironment& here) {
  check_nccl_header();
  if (const auto version = launch::loaded_nccl_version()) runtime::require_shared_gpus(*version);
  return std::make_shared<NcclEngine>(own_gpu(here));
}

}  // namespace am::cuda
