#include "am/runtime/device_error.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <catch2/catch.hpp>
#include <functional>
#include <stdexcept>
#include <string>

#include "am/runtime/collective_error.h"
#include "am/runtime/group.h"
#include "am/runtime/world.h"
#include "support/rank_check.h"

namespace am::runtime {
namespace {

const c10::SourceLocation kHere = {"f", "file.cpp", 1};
const c10::Device kGpu(c10::kCUDA, 3);

c10::AcceleratorError device_assert() {
  return {kHere, 710, "CUDA error: device-side assert triggered\nmore lines"};
}

// Backend whose all-reduce calls `fail`, which throws the error that a test examines.
class FailingBackend final : public c10d::Backend {
 public:
  FailingBackend(int rank, int size, std::function<void()> fail)
      : Backend(rank, size), fail_(std::move(fail)) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::AllreduceOptions& /*options*/) override {
    fail_();
    return {};
  }

 private:
  std::function<void()> fail_;
};

}  // namespace

TEST_CASE("errors of the CUDA runtime are the GPU's own") {
  const auto error = device_error(device_assert(), kGpu);
  REQUIRE(error);
  CHECK(std::string(error->what()) == "GPU 3 failed: CUDA error: device-side assert triggered");
  CHECK(error->kind() == ErrorKind::kRuntime);
  CHECK_FALSE(error->out_of_memory());
}

TEST_CASE("NCCL's report of a CUDA error is the GPU's own too") {
  const c10::DistBackendError error(kHere,
                                    "NCCL error: unhandled cuda error (run with NCCL_DEBUG)");
  CHECK(device_error(error, kGpu));
  CHECK_FALSE(
      device_error(c10::DistBackendError(kHere, "NCCL error: remote process exited"), kGpu));
}

TEST_CASE("failures of CUDA's libraries are the GPU's own") {
  const c10::Error product(kHere, "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `f`");
  const auto error = device_error(product, kGpu);
  REQUIRE(error);
  CHECK(std::string(error->what()) ==
        "GPU 3 failed: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `f`");
  CHECK(device_error(c10::Error(kHere, "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), kGpu));
  CHECK_FALSE(device_error(c10::Error(kHere, "a plan without CUDA error: none"), kGpu));
}

TEST_CASE("memory that ran out is told from other errors") {
  const c10::OutOfMemoryError error(kHere, "CUDA out of memory. Tried to allocate 2.00 GiB.");
  const auto found = device_error(error, at::kCPU);
  REQUIRE(found);
  CHECK(found->out_of_memory());
  CHECK_THAT(found->what(),
             Catch::Contains("out of memory: CUDA out of memory. Tried to allocate"));
  CHECK_FALSE(device_error(std::runtime_error("Connection closed by peer"), kGpu));
  CHECK_FALSE(device_error(c10::Error(kHere, "shapes differ"), kGpu));
}

TEST_CASE("a GPU that fails in a collective is no lost peer") {
  run_ranks(2, [](const World& world) {
    const Group group = world.new_group("failing", {0, 1}, {world.timeout()});
    const auto rank = static_cast<int>(world.rank());
    const auto thrown_by = [&](std::function<void()> fail) {
      group.communicator()->cpu = c10::make_intrusive<FailingBackend>(rank, 2, std::move(fail));
      try {
        group.all_reduce(at::ones({4}));
      } catch (const Error& error) {
        return error.kind();
      }
      return ErrorKind::kInternal;
    };
    RANK_CHECK(thrown_by([] { throw device_assert(); }) == ErrorKind::kRuntime);
    RANK_CHECK(thrown_by([] { throw c10::OutOfMemoryError(kHere, "CUDA out of memory"); }) ==
               ErrorKind::kRuntime);
    RANK_CHECK(thrown_by([] { throw std::runtime_error("Connection closed by peer"); }) ==
               ErrorKind::kPeer);
  });
}

}  // namespace am::runtime
