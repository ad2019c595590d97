// Compares twenty steps of every family with a plain PyTorch AdamW loop over transformers' model,
// from the same weights and on the same samples (tests/data/loop/families.json, made by
// scripts/fixtures/make_fixtures.py).
#include <catch2/catch.hpp>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "support/plans.h"
#include "support/train_curve.h"

namespace am {
namespace {

const std::string kExpertParallel = "ep_size = 2\n";

void check_near(const std::vector<double>& got, const Json& wanted, double tolerance) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("step " << i);
    CHECK(got[i] == Approx(wanted[i].get<double>()).epsilon(tolerance).margin(0));
  }
}

}  // namespace

TEST_CASE("every family trains along PyTorch's loss curve") {
  const std::vector<test::LayoutCase> layouts = {
      {"one rank", 1, test::float32_fsdp2(1)},
      {"tp 2 x fsdp2 2", 4, test::float32_fsdp2(4, "tp_size = 2\n")},
      {"ep 2 x fsdp2 2", 4, test::float32_fsdp2(4, kExpertParallel)},
  };
  const Json families = Json::parse(read_file(test::data_path("loop/families.json")));
  for (const auto& [family, wanted] : families.items()) {
    Diagnostics found;
    const auto config = model::load_config(test::data_path(cat("hf/", family)), found);
    for (const auto& layout : layouts) {
      if (!config->moe && layout.toml.find(kExpertParallel) != std::string::npos) continue;
      const std::string plan = cat(
          "[model]\npath = \"hf/", family, "\"\n[train]\nseq_len = 16\nglobal_batch_size = 8\n",
          "micro_batch_size = 2\nmax_steps = 20\nmax_grad_norm = 1.0\n[optimizer]\nlr = 2e-3\n",
          "[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\nshuffle = false\n", layout.toml);
      if (!test::runs(plan, layout.ranks)) continue;
      DYNAMIC_SECTION(family << ", " << layout.name) {
        const test::Curve curve = test::train_curve(test::parse(plan), layout.ranks);
        check_near(curve.losses, wanted["losses"], 1e-4);
        check_near(curve.norms, wanted["grad_norms"], 1e-3);
      }
    }
  }
}

}  // namespace am
