// An out-of-memory error names the unit whose forward or backward made the allocation.
#include "am/parallel/unit_place.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/runtime/device_error.h"
#include "support/plans.h"
#include "support/stand_in_device.h"

namespace am::parallel {
namespace {

class OneRow final : public MicroBatches {
 public:
  explicit OneRow(c10::Device device) : device_(device) {}
  int64_t count() const override { return 1; }
  MicroBatch read(int64_t /*m*/) override {
    const at::Tensor row = at::arange(16).view({1, -1}).to(device_);
    return {row, row, {}};
  }

 private:
  c10::Device device_;
};

// Runs forward and backward on a device that is out of memory after `allocations` allocations.
// Returns the error message; empty if the allocations suffice.
std::string failure(const config::Plan& plan, int64_t allocations) {
  std::string message;
  test::run_stand_ins(1, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load_or_initialize(*rank.model, plan);
    OneRow row(world.device());
    test::limit_allocations(allocations);
    try {
      rank.model->forward_backward(row, {.divisor = 16.0});
    } catch (const runtime::DeviceError& error) {
      CHECK(error.out_of_memory());
      message = error.what();
    }
    test::limit_allocations(-1);
  });
  return message;
}

// Returns the passes that out-of-memory errors name, for example "the forward of model.layers.0",
// in runs with more and more allowed allocations. Consecutive repetitions are dropped.
std::vector<std::string> places(const config::Plan& plan) {
  std::vector<std::string> found;
  for (int64_t allocations = 0;; allocations += 4) {
    const std::string message = failure(plan, allocations);
    if (message.empty()) return found;
    const size_t at = message.find("; in ");
    const std::string place = at == std::string::npos ? "" : message.substr(at + 5);
    if (found.empty() || found.back() != place) found.push_back(place);
  }
}

}  // namespace

TEST_CASE("an allocation that fails names the unit and its pass") {
  const std::string strategy =
      GENERATE(cat("name = \"fsdp2\"\n", test::kFullPrecision), std::string("name = \"ddp\"\n"));
  INFO(strategy);
  const config::Plan plan =
      test::parse(cat("[model]\npath = \"hf/llama\"\n[train]\nseq_len = 16\n[mesh]\nworld_size = "
                      "1\n[strategy]\n",
                      strategy));
  const std::vector<std::string> found = places(plan);
  const std::vector<std::string> wanted = {
      "the forward of model.layers.0", "the forward of model.layers.1",
      "the backward of model.layers.1", "the backward of model.layers.0"};
  INFO(join(found, ", "));
  auto next = found.begin();
  for (const std::string& each : wanted) {
    next = std::find(next, found.end(), each);
    CHECK(next != found.end());
  }
}

TEST_CASE("other errors of a device were there before the host saw them") {
  const runtime::DeviceError error("GPU 0 failed", /*out_of_memory=*/false, "a hint");
  const auto placed = error.in("the forward of model.layers.0");
  CHECK(placed.what() == std::string("GPU 0 failed; seen in the forward of model.layers.0"));
  CHECK(placed.hint() == "a hint");
  CHECK(placed.in("the optimizer's update").what() == std::string(placed.what()));
  CHECK(error.in("").what() == std::string(error.what()));
}

}  // namespace am::parallel
