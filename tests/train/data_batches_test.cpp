// Tests batches for a GPU (here a stand-in device, support/stand_in_device.h). Their token ids are
// checked on the host, and reading ahead does not change which batch a step receives.
#include "am/train/data_batches.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/text.h"
#include "am/data/from_plan.h"
#include "support/plans.h"
#include "support/stand_in_device.h"

namespace am::train {
namespace {

constexpr int64_t kVocabulary = 64;

config::Plan plan_of_two_micro_batches() {
  return test::parse(
      "[model]\npath = \"loop/model\"\n[mesh]\nworld_size = 1\n[train]\nseq_len = "
      "16\nmicro_batch_size = 2\n"
      "global_batch_size = 4\n[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\n");
}

struct Source {
  explicit Source(std::optional<c10::Device> device, int64_t vocabulary = kVocabulary)
      : world(runtime::World::single()),
        mesh(world, mesh::MeshLayout({}), device),
        batches(plan, std::make_unique<data::BatchReader>(data::open_batches(plan, kVocabulary)),
                mesh, 0, 0, vocabulary) {}

  config::Plan plan = plan_of_two_micro_batches();
  runtime::World world;
  runtime::DeviceMesh mesh;
  DataBatches batches;
};

}  // namespace

TEST_CASE("a device's batches are the host's, in whatever order they are asked for") {
  Source host(std::nullopt);
  Source device(test::stand_in_device());
  const std::vector<std::pair<int64_t, int64_t>> places = {{0, 0}, {0, 1}, {1, 0}, {5, 1},
                                                           {6, 0}, {6, 0}, {2, 1}};
  for (const auto& [step, micro_batch] : places) {
    INFO(step << ", " << micro_batch);
    const MicroBatch wanted = host.batches.read(step, micro_batch);
    const MicroBatch got = device.batches.read(step, micro_batch);
    CHECK(got.ids_BT.device() == test::stand_in_device());
    CHECK(at::equal(got.ids_BT.cpu(), wanted.ids_BT));
    CHECK(at::equal(got.labels_BT.cpu(), wanted.labels_BT));
    CHECK(got.first_sequence == wanted.first_sequence);
  }
}

TEST_CASE("an id outside the vocabulary is an error on the host, before a device sees it") {
  const at::Tensor ids = Source(std::nullopt).batches.read(0, 0).ids_BT;
  Source device(test::stand_in_device(), /*vocabulary=*/ids.max().item<int64_t>());
  CHECK_THROWS_WITH(device.batches.read(0, 0),
                    Catch::Contains("token id") && Catch::Contains("is outside the vocabulary"));
}

TEST_CASE("a planted id passes the host's check") {
  Source device(test::stand_in_device());
  const fault::Planted planted(fault::Fault::kUncheckedId);
  CHECK(device.batches.read(1, 0).ids_BT.cpu().max().item<int64_t>() < kVocabulary);
  CHECK(device.batches.read(2, 0).ids_BT.cpu().max().item<int64_t>() == kVocabulary);
}

}  // namespace am::train
