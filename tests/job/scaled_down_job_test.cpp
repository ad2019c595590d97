// Tests that each plan that passes the rules has a proxy: a plan with a small model and few ranks
// for tests of the layout.
#include "am/job/scaled_down_job.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/model/family.h"
#include "am/model/layer_profile.h"
#include "am/rules/check.h"
#include "support/folders.h"

namespace am {

namespace {

namespace fs = std::filesystem;

// Returns the proxy of the plan that consists of `keys` and the model in `folder`. Returns nullopt
// if the rules refuse this plan.
std::optional<job::ScaledDownJob> proxy_of(const fs::path& folder, const std::string& keys,
                                           Diagnostics& found) {
  const auto plan = config::parse_plan(
      cat("[model]\npath = \"", folder.string(), "\"\nweights = \"none\"\n", keys), "plan.toml", {},
      found);
  REQUIRE(plan.has_value());
  const auto checked = rules::check(*plan, 0, found);
  if (!found.ok() || !checked.layout) return std::nullopt;
  found = {};
  auto proxy = job::scaled_down(*plan, *checked.model, *checked.mesh, found);
  for (const Diagnostic& each : found.items()) UNSCOPED_INFO(each.rule << ": " << each.message);
  CHECK(proxy.has_value());
  return proxy;
}

}  // namespace

TEST_CASE("a small model and mesh stand for every model and mesh") {
  const std::vector<std::string> plans = {
      "[train]\nseq_len = 1024\n[mesh]\nworld_size = 64\ndp_replicate_size = 4\n",
      "[train]\nseq_len = 1024\n[mesh]\nworld_size = 64\ntp_size = 8\n"
      "[strategy]\nsequence_parallel = true\n",
      "[train]\nseq_len = 1023\n[mesh]\nworld_size = 6\ntp_size = 2\ndp_size = 3\n",
      "[train]\nseq_len = 1023\n[mesh]\nworld_size = 32\ncp_size = 8\n[context]\nmethod = "
      "\"ring\"\n",
      "[train]\nseq_len = 1024\n[mesh]\nworld_size = 16\ncp_size = 4\ntp_size = 2\n"
      "[context]\nmethod = \"ulysses\"\n",
      "[train]\nseq_len = 512\n[mesh]\nworld_size = 32\npp_size = 4\n"
      "[pipeline]\nschedule = \"interleaved_1f1b\"\nvirtual_stages = 2\nmicrobatches = 16\n",
      "[train]\nseq_len = 512\nglobal_batch_size = 96\n[mesh]\nworld_size = 16\npp_size = 2\n"
      "[pipeline]\nschedule = \"dual_pipe_v\"\nvirtual_stages = 2\nmicrobatches = 6\n",
      "[train]\nseq_len = 512\n[mesh]\nworld_size = 16\nep_size = 8\ntp_size = 2\n",
      "[train]\nseq_len = 512\n[mesh]\nworld_size = 8\n[strategy]\nname = \"ddp\"\n",
      "[train]\nseq_len = 512\n[mesh]\nworld_size = 12\n[strategy]\nname = \"megatron_fsdp\"\n",
      "[train]\nseq_len = 512\n[mesh]\nworld_size = 12\n[strategy]\nname = \"megatron_fsdp\"\n"
      "zero_dp_strategy = 0\n",
      "[train]\nseq_len = 512\n[mesh]\nworld_size = 12\npp_size = 3\n[strategy]\n"
      "name = \"megatron\"\nzero = 0\n",
      "[train]\nseq_len = 512\n[lora]\nrank = 8\ntarget_modules = [\"*proj*\"]\n"
      "quantize_base = \"nf4\"\n[mesh]\nworld_size = 16\ntp_size = 2\n",
  };
  int made = 0;
  for (const auto& entry : fs::directory_iterator(cat(test::kSourceFolder, "/plans/models"))) {
    for (const std::string& keys : plans) {
      INFO(entry.path().filename().string() << "\n" << keys);
      Diagnostics found;
      const auto proxy = proxy_of(entry.path(), keys, found);
      if (!proxy) continue;
      ++made;
      CHECK(proxy->mesh.world_size() <= 32);
      CHECK(proxy->model.hidden_size <= 512);
      const auto large = model::load_config(entry.path(), found);
      CHECK(model::layer_kinds(proxy->model).size() == model::layer_kinds(*large).size());
      CHECK(proxy->model.tie_word_embeddings == large->tie_word_embeddings);
    }
  }
  CHECK(made > 200);
}

TEST_CASE("key heads stay on the side of tp on which they were") {
  const fs::path folder =
      cat(test::kSourceFolder, "/plans/models/llama-3.1-8b");  // 32 query heads, 8 key heads
  const auto key_heads_of_a_rank = [&](int64_t tp) {
    Diagnostics found;
    const auto proxy =
        proxy_of(folder, cat("[mesh]\nworld_size = ", tp, "\ntp_size = ", tp, "\n"), found);
    REQUIRE(proxy.has_value());
    return static_cast<double>(proxy->model.num_key_value_heads) /
           static_cast<double>(proxy->mesh.tp);
  };
  CHECK(key_heads_of_a_rank(4) >= 1.0);
  CHECK(key_heads_of_a_rank(16) < 1.0);
}

TEST_CASE("sequences that cp pads are padded in the proxy too") {
  const fs::path folder = cat(test::kSourceFolder, "/plans/models/llama-3.1-8b");
  const auto pads = [&](int64_t seq_len, bool sequence_parallel) {
    Diagnostics found;
    const auto proxy = proxy_of(
        folder,
        cat("[train]\nseq_len = ", seq_len, "\n[mesh]\nworld_size = 16\ncp_size = 8\ntp_size = 2\n",
            "[strategy]\nsequence_parallel = ", sequence_parallel ? "true" : "false", "\n"),
        found);
    REQUIRE(proxy.has_value());
    const int64_t parts = 2 * proxy->mesh.cp * (sequence_parallel ? proxy->mesh.tp : 1);
    return proxy->plan.train.seq_len % parts != 0;
  };
  CHECK_FALSE(pads(1024, false));
  CHECK_FALSE(pads(1024, true));
  CHECK(pads(1000, false));
  CHECK(pads(1008, true));  // a multiple of 2 * cp, not of 2 * cp * tp
  CHECK(pads(40, false));   // shorter than the proxy's longest sequence
}

}  // namespace am
