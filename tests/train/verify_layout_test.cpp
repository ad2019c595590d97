// Every layout computes the values of a run on one rank, up to rounding in float64. Each fault that
// depends on the layout is detected when it is injected, on the smallest layout where it can occur.
#include "am/train/verify_layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/fault.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/model/family.h"
#include "support/changed_config.h"
#include "support/folders.h"
#include "support/plans.h"
#include "support/temporary_folder.h"

namespace am {

using fault::Fault;
using train::LayoutVerdict;

namespace {

struct FaultRow {
  Fault fault;
  std::string model;  // folder in tests/data
  std::string toml;   // [mesh], [strategy] and other sections of the plan
  std::string what;   // kind of the first value that differs from one rank's
  int64_t step = 1;   // step in which it differs
  int64_t length = 16;
  int64_t batch = 4;
};

std::string on_mesh(int64_t world, const std::string& sizes, const std::string& strategy = {}) {
  return cat("[mesh]\nworld_size = ", world, "\n", sizes, "\n[strategy]\nname = \"fsdp2\"\n",
             strategy, "\n");
}

std::string in_stages(const std::string& schedule, int64_t virtual_stages = 1) {
  return on_mesh(2, "pp_size = 2") + cat("[pipeline]\nschedule = \"", schedule,
                                         "\"\nmicrobatches = 4\nvirtual_stages = ", virtual_stages,
                                         "\n");
}

std::vector<FaultRow> fault_rows() {
  const std::string tp = on_mesh(2, "tp_size = 2"), cp = on_mesh(2, "cp_size = 2");
  const std::string sp = on_mesh(2, "tp_size = 2", "sequence_parallel = true");
  const std::string ep = on_mesh(2, "ep_size = 2");
  const std::string cp_4 = on_mesh(4, "cp_size = 4");
  return {
      {Fault::kTpInputSum, "hf/llama", tp, "gradient"},
      {Fault::kTpHeadNormSum, "hf/qwen3", tp, "gradient"},
      {Fault::kTpKeyHeadSum, "hf/llama", on_mesh(4, "tp_size = 4"), "gradient"},
      {Fault::kTpBiasEach, "hf/phi", tp, "output", /*step=*/2},  // biases start at zero
      {Fault::kTpVocabOffset, "hf/llama", tp, "output"},
      {Fault::kSpNormSum, "hf/llama", sp, "gradient"},
      {Fault::kMlaRopeKey, "hf/deepseek_v2-dense", tp, "gradient"},
      {Fault::kCpPositions, "hf/llama", cp, "output"},
      {Fault::kCpRingOrder, "hf/llama", cp_4, "output"},
      {Fault::kCpLse, "hf/mistral", cp_4, "output"},
      {Fault::kCpKeyHome, "hf/llama", cp, "gradient"},
      {Fault::kCpSinks, "hf/gpt_oss", cp, "output"},
      {Fault::kDpDivide, "hf/llama", on_mesh(2, ""), "gradient"},
      {Fault::kAccumulateLast, "hf/llama", on_mesh(2, ""), "gradient"},
      {Fault::kPpTiedSum, "hf/gemma", in_stages("1f1b"), "gradient"},
      {Fault::kPpSwap, "hf/llama", in_stages("1f1b"), "gradient"},
      {Fault::kPpWeightLost, "table_deep", in_stages("zbv_zero_bubble", 2), "gradient"},
      {Fault::kPpLossTwice, "hf/llama", in_stages("gpipe"), "gradient"},
      {Fault::kEpUnpermute, "hf/mixtral", ep, "output"},
      {Fault::kEpRouterSum, "hf/mixtral", tp, "gradient"},
      {Fault::kEpDivide, "hf/mixtral", ep, "gradient"},
      {Fault::kEpPadding, "hf/deepseek_v3",
       cp + "[experts]\nbalancing = \"sequence\"\ncoefficient = 0.1\n", "gradient",
       /*step=*/1, /*length=*/15},
      {Fault::kNormExperts, "hf/mixtral", ep, "gradient norm"},
      {Fault::kNormReplicas, "hf/llama", tp, "gradient norm"},
      {Fault::kLoraSharedSum, "hf/llama",
       sp + "[lora]\nrank = 4\ntarget_modules = [\"all-linear\"]\n", "gradient"},
      {Fault::kInitLocal, "hf/llama", tp, "output"},
      {Fault::kHsdpReplicas, "hf/llama", on_mesh(4, "dp_replicate_size = 2"), "gradient"},
      {Fault::kReplicaBit, "hf/llama", on_mesh(4, "dp_replicate_size = 2"), "parameter"},
      {Fault::kLabelsOfRank, "hf/llama", on_mesh(2, "") + "[data]\nkind = \"synthetic_chat\"\n",
       "loss"},
      {Fault::kLabelsOfMicroBatch, "hf/llama",
       on_mesh(2, "") + "[data]\nkind = \"synthetic_chat\"\n", "gradient"},
      {Fault::kLabelsOfCpPart, "hf/llama", cp + "[data]\nkind = \"synthetic_chat\"\n", "gradient"},
      {Fault::kFp8LocalScale, "hf/llama",
       on_mesh(2, "tp_size = 2", "backend = \"gloo\"\nfp8 = \"tensorwise\""), "output"},
      {Fault::kWindowLocal, "hf/mistral", cp, "output"},
  };
}

// Returns "Fault::kTpInputSum" for "tp_input_sum".
std::string enumerator_of(std::string_view name) {
  std::string camel = "Fault::k";
  for (const std::string& word : split(name, '_')) {
    camel += static_cast<char>(word.front() - 'a' + 'A') + word.substr(1);
  }
  return camel;
}

LayoutVerdict verdict_of(const FaultRow& row) {
  const config::Plan plan =
      test::parse(cat("[model]\npath = \"", row.model, "\"\n[train]\nseq_len = ", row.length,
                      "\nmicro_batch_size = 1\nglobal_batch_size = ", row.batch, "\n", row.toml));
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  REQUIRE(config.has_value());
  return train::verify_layout(plan, *config);
}

}  // namespace

TEST_CASE("a layout parts from one rank exactly where a mistake is planted") {
  for (const FaultRow& row : fault_rows()) {
    DYNAMIC_SECTION(fault::describe(row.fault).name) {
      const LayoutVerdict honest = verdict_of(row);
      if (honest.divergence) {
        FAIL(honest.divergence->what << " " << honest.divergence->name << " "
                                     << honest.divergence->difference);
      }
      CHECK(honest.largest < 1e-10);
      const fault::Planted planted(row.fault);
      const LayoutVerdict faulty = verdict_of(row);
      REQUIRE(faulty.divergence.has_value());
      INFO(faulty.divergence->name << " " << faulty.divergence->difference);
      CHECK(faulty.divergence->step == row.step);
      CHECK(faulty.divergence->what == row.what);
    }
  }
}

TEST_CASE("layouts with labels that do not count compute what one rank computes") {
  const std::string pipeline = "[pipeline]\nschedule = \"1f1b\"\nmicrobatches = 4\n";
  const std::vector<std::pair<std::string, std::string>> layouts = {
      {"hf/llama", on_mesh(3, "")},
      {"hf/llama", on_mesh(2, "tp_size = 2", "sequence_parallel = true")},
      {"hf/llama", on_mesh(2, "pp_size = 2") + pipeline},
      {"hf/llama", on_mesh(2, "cp_size = 2")},
      {"hf/mixtral", on_mesh(2, "ep_size = 2")},
      {"hf/gemma2", on_mesh(4, "tp_size = 2\ncp_size = 2")},
  };
  for (const auto& [model, toml] : layouts) {
    for (const std::string packing : {"true", "false"}) {
      DYNAMIC_SECTION(model << " " << toml << " packing " << packing) {
        const std::string data =
            cat("[data]\nkind = \"synthetic_chat\"\npacking = ", packing, "\n");
        FaultRow row = {Fault::kSlowRank, model, toml + data, ""};
        row.batch = model == "hf/llama" && toml.find("world_size = 3") != std::string::npos ? 6 : 4;
        const LayoutVerdict verdict = verdict_of(row);
        if (verdict.divergence) {
          FAIL(verdict.divergence->what << " " << verdict.divergence->name << " "
                                        << verdict.divergence->difference);
        }
        CHECK(verdict.largest < 1e-10);
      }
    }
  }
}

TEST_CASE("layouts in FP8 compute what one rank computes") {
  const std::string lora = "[lora]\nrank = 4\ntarget_modules = [\"all-linear\"]\n";
  for (const std::string recipe : {"tensorwise", "rowwise"}) {
    const std::string fp8 = cat("backend = \"gloo\"\nfp8 = \"", recipe, "\"\n");
    const std::vector<std::pair<std::string, std::string>> layouts = {
        {"hf/llama", on_mesh(2, "", fp8)},
        {"hf/llama", on_mesh(4, "dp_replicate_size = 2", fp8)},
        {"hf/llama", on_mesh(2, "tp_size = 2", fp8)},
        {"hf/llama", on_mesh(4, "tp_size = 2", fp8 + "sequence_parallel = true")},
        {"hf/llama", on_mesh(2, "tp_size = 2", fp8 + "activation_checkpointing = \"full\"")},
        {"hf/llama",
         on_mesh(2, "tp_size = 2", fp8 + "activation_checkpointing = \"selective\"") + lora},
        {"hf/gpt2", on_mesh(2, "tp_size = 2", fp8)},
        {"hf/phi3", on_mesh(2, "tp_size = 2", fp8)},
        {"hf/mixtral", on_mesh(2, "ep_size = 2", fp8)},
        {"hf/deepseek_v3", on_mesh(2, "tp_size = 2", fp8)},
    };
    for (const auto& [model, toml] : layouts) {
      DYNAMIC_SECTION(model << " " << toml) {
        const LayoutVerdict verdict = verdict_of({Fault::kSlowRank, model, toml, ""});
        if (verdict.divergence) {
          FAIL(verdict.divergence->what << " " << verdict.divergence->name << " "
                                        << verdict.divergence->difference);
        }
        CHECK(verdict.largest < 1e-10);
      }
    }
  }
}

TEST_CASE("weight gradients in FP8 can be computed in a pass of their own") {
  const auto config =
      test::changed_config("llama", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 4");
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json", config.text);
  for (const std::string recipe : {"tensorwise", "rowwise"}) {
    const config::Plan plan = test::parse(cat(
        "[model]\npath = \"", folder.path().string(),
        "\"\n[train]\nseq_len = 16\nmicro_batch_size = 1\nglobal_batch_size = 4\n",
        on_mesh(4, "pp_size = 2\ntp_size = 2", cat("backend = \"gloo\"\nfp8 = \"", recipe, "\"")),
        "[pipeline]\nschedule = \"zbv_zero_bubble\"\nmicrobatches = 4\nvirtual_stages = 2\n"));
    const LayoutVerdict verdict = train::verify_layout(plan, config);
    INFO(recipe << " " << (verdict.divergence ? verdict.divergence->name : ""));
    CHECK_FALSE(verdict.divergence.has_value());
    CHECK(verdict.largest < 1e-10);
  }
}

TEST_CASE("a plan may leave the global batch to its micro-batches") {
  const config::Plan plan =
      test::parse(cat("[model]\npath = \"hf/llama\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n",
                      on_mesh(2, "")));
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  const LayoutVerdict verdict = train::verify_layout(plan, *config, {.steps = 1});
  CHECK_FALSE(verdict.divergence.has_value());
}

TEST_CASE("a parameter whose gradient is zero but for rounding is not a mistake of the layout") {
  // If queries attend only to their own key, queries, keys and their norms have no gradient. The
  // norms' weights start at zero here, and an optimizer may turn rounding errors into full steps.
  const model::ModelConfig config =
      test::changed_config("gemma3_text", "\"sliding_window\": 8", "\"sliding_window\": 1");
  for (const char* optimizer :
       {"", "[optimizer]\neps = 1e-30\n", "[optimizer]\nname = \"muon\"\n"}) {
    INFO(optimizer);
    const config::Plan plan = test::parse(
        cat("[model]\npath = \"hf/gemma3_text\"\n[train]\nseq_len = 16\nmicro_batch_size = 1\n"
            "global_batch_size = 2\n",
            on_mesh(4, "cp_size = 4"), "[context]\nmethod = \"ring\"\n", optimizer));
    const LayoutVerdict verdict = train::verify_layout(plan, config);
    if (verdict.divergence) {
      FAIL(verdict.divergence->what << " " << verdict.divergence->name << " "
                                    << verdict.divergence->difference);
    }
  }
}

TEST_CASE("every mistake has its row, and one place in the code") {
  std::vector<std::string> sources;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(cat(test::kSourceFolder, "/lib/am"))) {
    const std::filesystem::path& file = entry.path();
    if (file.extension() != ".cpp" || file.stem() == "fault") continue;
    sources.push_back(read_file(file));
  }
  const std::vector<FaultRow> rows = fault_rows();
  for (const fault::Description& each : fault::all()) {
    INFO(each.name);
    CHECK(fault::find(each.name) == each.fault);
    CHECK(fault::describe(each.fault).name == each.name);
    // Other tests detect these faults: some faults make the values equally wrong under every layout
    // (data_batches_test.cpp, run_chat_gradients_test.py), and others cost only time
    // (run_stragglers_test.py).
    constexpr Fault kElsewhere[] = {
        Fault::kUncheckedId,     Fault::kSlowRank,    Fault::kSlowData,       Fault::kSlowDisk,
        Fault::kLabelsOfPadding, Fault::kMaskShifted, Fault::kValidationTwice};
    const bool of_layout =
        std::find(std::begin(kElsewhere), std::end(kElsewhere), each.fault) == std::end(kElsewhere);
    CHECK(std::count_if(rows.begin(), rows.end(), [&](const FaultRow& row) {
            return row.fault == each.fault;
          }) == (of_layout ? 1 : 0));
    const std::string name = enumerator_of(each.name);
    CHECK(std::count_if(sources.begin(), sources.end(), [&](const std::string& source) {
            return source.find(name) != std::string::npos;
          }) == 1);
  }
}

}  // namespace am
