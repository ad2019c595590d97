#include "am/predict/memory/host_memory.h"

#include <catch2/catch.hpp>

#include "am/launch/doctor/memory_fit.h"
#include "am/layout/layout.h"
#include "am/predict/memory/memory.h"
#include "layout/plan_text.h"

using namespace am;
using namespace am::layout;
using namespace am::predict;
using am::test::layout_of;
using am::test::model_of;
using am::test::plan_of;

namespace {

struct PlannedJob {
  explicit PlannedJob(const std::string& text)
      : plan(plan_of(text)), model(model_of("llama-3.1-8b")), layout(layout_of(plan, model)) {}
  int64_t training(RankRange ranks) const { return training_bytes(plan, model, layout, ranks); }
  int64_t inspection(RankRange ranks) const { return inspection_bytes(plan, model, layout, ranks); }

  config::Plan plan;
  model::ModelConfig model;
  Layout layout;
};

constexpr int64_t kParameters = 8'030'261'248;

}  // namespace

TEST_CASE("what a machine's ranks take is the sum of their predicted peaks") {
  const PlannedJob fsdp2(
      "[mesh]\nworld_size = 8\n[strategy]\nname = \"fsdp2\"\n[train]\nseq_len = 128\n");
  int64_t sum = 0;
  for (int64_t rank = 0; rank < 8; ++rank) {
    sum += estimate_memory(fsdp2.plan, fsdp2.model, fsdp2.layout, rank).components.total();
  }
  CHECK(fsdp2.training({0, 8}) == sum + 8 * launch::kRankBytes);
  CHECK(fsdp2.training({0, 4}) + fsdp2.training({4, 4}) == fsdp2.training({0, 8}));

  // Two machines run one stage each. The second machine has the head and its logits.
  const PlannedJob stages(
      "[mesh]\nworld_size = 8\npp_size = 2\n[strategy]\nname = \"fsdp2\"\n[train]\n"
      "seq_len = 4096\n");
  int64_t second = 0;
  for (int64_t rank = 4; rank < 8; ++rank) {
    second += estimate_memory(stages.plan, stages.model, stages.layout, rank).components.total();
  }
  CHECK(stages.training({4, 4}) == second + 4 * launch::kRankBytes);
  CHECK(stages.training({4, 4}) != stages.training({0, 4}));
}

TEST_CASE("a session takes its parameters and no states of training") {
  const PlannedJob fsdp2(
      "[mesh]\nworld_size = 8\n[strategy]\nname = \"fsdp2\"\n[train]\nseq_len = 128\n");
  const int64_t stored = 4 * kParameters;  // float32
  const int64_t wanted = fsdp2.inspection({0, 8});
  CHECK(wanted > stored);
  CHECK(wanted < fsdp2.training({0, 8}) / 2);
}

TEST_CASE("offloaded states are in the machine's memory") {
  const std::string head = "[mesh]\nworld_size = 8\n[strategy]\nname = \"fsdp2\"\n";
  const PlannedJob here(head + "[train]\nseq_len = 128\n");
  const PlannedJob offloaded(head +
                             "offload_policy = { pin_memory = false }\n[train]\nseq_len = 128\n");
  CHECK(offloaded.training({0, 8}) > 4 * 4 * kParameters);
  CHECK(offloaded.inspection({0, 8}) >= 4 * kParameters);
}
