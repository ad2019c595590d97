#include "am/cuda/nccl_engine.h"

#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAFunctions.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::cuda {

namespace {

using c10d::ProcessGroupNCCL;

// Ends its communicator as the rank ends: in order, when all is well, so that peers still receive
// what this rank has sent; at once, when an error is under way and peers may never come.
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
      // The rank is about to say, or has said, what went wrong.
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
    // Now, while all ranks are known to be here, and because only a communicator that exists can
    // register user buffers.
    backend->eagerConnectSingleDevice(device_);
    return backend;
  }

  c10::intrusive_ptr<c10d::Work> observer(
      const c10::intrusive_ptr<c10d::Work>& work) const override {
    const auto* nccl = dynamic_cast<const ProcessGroupNCCL::WorkNCCL*>(work.get());
    if (nccl == nullptr) return {};
    // As c10d's own watchdog keeps it: a copy has no reference to the outputs.
    return c10::make_intrusive<ProcessGroupNCCL::WorkNCCL>(*nccl);
  }

 private:
  c10::Device device_;
};

// ncclConfig_t lies inside ProcessGroupNCCL::Options and grows with NCCL's versions. Libtorch's
// constructor writes by the nccl.h that libtorch was built with; here one sees whether it is ours.
void check_nccl_header() {
  using Options = ProcessGroupNCCL::Options;
  constexpr size_t kSlack = 1024;  // of what a larger ncclConfig_t writes
  alignas(Options) std::byte room[sizeof(Options) + kSlack] = {};
  auto* options = new (room) Options();
  const bool same = options->split_color == NCCL_SPLIT_NOCOLOR - 1 && !options->split_from;
  if (!same) {
    throw Error(ErrorKind::kRuntime,
                cat("the CUDA plugin was built with the nccl.h of NCCL ", NCCL_MAJOR, ".",
                    NCCL_MINOR, ".", NCCL_PATCH, ", and libtorch with another one"),
                "build automesh with the nccl.h of libtorch's NCCL (-DAM_NCCL_INCLUDE_DIR=DIR)");
  }
  options->~Options();
}

c10::Device gpu_of(const launch::RankEnvironment& here) {
  const int64_t count = static_cast<unsigned char>(c10::cuda::device_count());  // never below 0
  if (here.local_rank >= count) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    throw Error(ErrorKind::kRuntime,
                cat("rank ", here.rank, " has local rank ", here.local_rank, ", but it sees ",
                    count, count == 1 ? " GPU" : " GPUs",
                    visible == nullptr ? "" : cat(" (CUDA_VISIBLE_DEVICES=\"", visible, "\")")),
                "start one rank a GPU, and let every rank see all GPUs of its machine; or use "
                "backend = \"gloo\"");
  }
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(here.local_rank)};
}

// torch.cuda.set_sync_debug_mode by the environment: the CUDA runtime warns of each call for which
// the host waits, or makes an error of it.
void set_sync_debug_mode() {
  const char* mode = std::getenv("AM_CUDA_SYNC_DEBUG");
  if (mode == nullptr) return;
  const std::string_view wanted = mode;
  using c10::cuda::SyncDebugMode;
  if (wanted == "warn") c10::cuda::warning_state().set_sync_debug_mode(SyncDebugMode::L_WARN);
  if (wanted == "error") c10::cuda::warning_state().set_sync_debug_mode(SyncDebugMode::L_ERROR);
}

}  // namespace

std::shared_ptr<runtime::Engine> make_nccl_engine(const launch::RankEnvironment& here) {
  check_nccl_header();
  const c10::Device device = gpu_of(here);
  at::globalContext().lazyInitDevice(c10::kCUDA);
  c10::cuda::set_device(device.index());
  set_sync_debug_mode();
  return std::make_shared<NcclEngine>(device);
}

}  // namespace am::cuda
