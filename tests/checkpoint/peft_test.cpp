// Tests adapters in PEFT's files: PEFT's files are read, exports equal PEFT's files, and adapters
// that do not fit the plan are refused. Also tests exports with adapters merged into the weights.
#include "am/checkpoint/peft.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "support/plans.h"
#include "support/temporary_folder.h"

namespace am::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLlamaLora = "rank = 4\nalpha = 6\ntarget_modules = [\"all-linear\"]\n";

std::string plan_text(const std::string& family, const std::string& lora,
                      const std::string& layout = test::float32_fsdp2(1)) {
  return cat("[model]\npath = \"hf/", family,
             "\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n[lora]\n", lora, layout);
}

std::string adapter(const std::string& name) { return test::data_path("lora/" + name); }

at::Tensor logits_of(parallel::ParallelModel& model, const std::string& name) {
  const at::NoGradGuard no_grad;
  const auto reference = frameworks::open_tensor_source(adapter(name) + "/reference.safetensors");
  return model.full_logits(model.forward(checkpoint::read_all(*reference, "input_ids")));
}

at::Tensor peft_logits(const std::string& name) {
  return checkpoint::read_all(
      *frameworks::open_tensor_source(adapter(name) + "/reference.safetensors"), "logits");
}

// Returns the error of loading the adapter into a model with these keys of [lora].
std::string refusal(const fs::path& path, const std::string& lora) {
  test::RankModel rank(test::parse(plan_text("llama", lora)), runtime::World::single());
  try {
    load_adapter(*rank.model, path);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    return cat(error.what(), " | ", error.hint());
  }
  return {};
}

// Returns the folder of a copy of llama's adapter with one changed key of adapter_config.json.
fs::path changed(const TemporaryFolder& temp, const char* key, const Json& value) {
  const fs::path folder = temp / cat("changed-", key);
  fs::create_directories(folder);
  fs::copy(fs::path(adapter("llama")) / "adapter_model.safetensors", folder);
  Json config = Json::parse(read_file(adapter("llama") + "/adapter_config.json"));
  config[key] = value;
  std::ofstream(folder / "adapter_config.json") << config.dump(2);
  return folder;
}

}  // namespace

TEST_CASE("a plan begins with PEFT's adapter") {
  const std::string lora = cat(kLlamaLora, "weights = \"", adapter("llama"), "\"\n");
  const config::Plan plan = test::parse(plan_text("llama", lora));
  test::RankModel rank(plan, runtime::World::single());
  const std::string done = load_or_initialize(*rank.model, plan);
  CHECK(done.find("; adapters from ") != std::string::npos);
  CHECK(test::relative_difference(logits_of(*rank.model, "llama"), peft_logits("llama")) < 1e-5);
}

TEST_CASE("without an adapter's weights the model is what it was") {
  const config::Plan plan = test::parse(plan_text("llama", kLlamaLora));
  test::RankModel rank(plan, runtime::World::single());
  load_or_initialize(*rank.model, plan);
  const auto plain =
      frameworks::open_tensor_source(test::data_path("hf/llama/reference.safetensors"));
  CHECK(test::relative_difference(logits_of(*rank.model, "llama"),
                                  checkpoint::read_all(*plain, "logits")) < 1e-5);
}

TEST_CASE("DoRA's magnitudes begin as the norms of the weights") {
  const auto plain =
      frameworks::open_tensor_source(test::data_path("hf/llama/reference.safetensors"));
  for (const auto& [layout, ranks] :
       {std::pair{test::float32_fsdp2(1), 1},
        {test::float32_fsdp2(4, "tp_size = 2\n", "sequence_parallel = true\n"), 4}}) {
    const config::Plan plan =
        test::parse(plan_text("llama", cat(kLlamaLora, "use_dora = true\n"), layout));
    runtime::run_ranks(ranks, [&](const runtime::World& world) {
      test::RankModel rank(plan, world);
      load_or_initialize(*rank.model, plan);
      CHECK(test::relative_difference(logits_of(*rank.model, "llama"),
                                      checkpoint::read_all(*plain, "logits")) < 1e-5);
    });
  }
}

TEST_CASE("weights with adapters keep DoRA's magnitudes") {
  const TemporaryFolder temp;
  config::Plan plan = test::parse(plan_text("llama", cat(kLlamaLora, "use_dora = true\n")));
  test::RankModel trained(plan, runtime::World::single());
  load_or_initialize(*trained.model, plan);
  const at::Tensor before = logits_of(*trained.model, "llama");
  {
    const at::NoGradGuard no_grad;
    trained.model->for_each_owned(
        [](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
          at::Tensor value = owned.value;
          if (owned.name.find("lora_") != std::string::npos) value.mul_(1.1).add_(0.05);
        });
  }
  const at::Tensor after = logits_of(*trained.model, "llama");
  REQUIRE(test::relative_difference(after, before) > 1e-2);
  run_folder::CheckpointInfo info;
  info.step = 1;
  info.world_size = 1;
  info.mesh = trained.layout.mesh.sizes();
  info.model_type = trained.config.model_type;
  save_checkpoint(temp / "trained", {info, config::to_toml(plan)}, *trained.model);
  plan.model.weights = (temp / "trained").string();
  test::RankModel loaded(plan, runtime::World::single());
  load_or_initialize(*loaded.model, plan);
  CHECK(test::relative_difference(logits_of(*loaded.model, "llama"), after) < 1e-6);
}

TEST_CASE("an adapter that is not the plan's is refused, with what the plan should say") {
  const TemporaryFolder temp;
  const auto contains = [](const std::string& said, const std::string& text) {
    INFO(said);
    CHECK(said.find(text) != std::string::npos);
  };
  const fs::path peft = adapter("llama");
  CHECK(refusal(peft, kLlamaLora).empty());
  CHECK(refusal(peft / "adapter_model.safetensors", kLlamaLora).empty());
  contains(refusal(peft, "rank = 8\nalpha = 12\ntarget_modules = [\"all-linear\"]\n"),
           "lora.rank = 4");
  contains(refusal(peft, "rank = 4\nalpha = 4\ntarget_modules = [\"all-linear\"]\n"),
           "lora.alpha = 6");
  contains(refusal(peft, "rank = 4\nalpha = 6\ntarget_modules = [\"q_proj\"]\n"),
           "the model has no parameter base_model.model.model.layers.0.");
  contains(refusal(adapter("llama-head"), kLlamaLora), "q_proj.lora_A.weight is missing");
  contains(refusal(changed(temp, "use_dora", true), kLlamaLora), "lora.use_dora = true");
  contains(refusal(peft, cat(kLlamaLora, "use_dora = true\n")), "lora.use_dora = false");
  contains(refusal(adapter("llama-saved"),
                   "rank = 4\nalpha = 6\ntarget_modules = [\"q_proj\", \"v_proj\"]\n"),
           "lm_head.weight is stored, but lora.modules_to_save does not name its module");
  contains(refusal(changed(temp, "rank_pattern", {{"q_proj", 8}}), kLlamaLora), "rank_pattern");
  for (const char* begun : {"pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga"}) {
    const TemporaryFolder own;
    contains(refusal(changed(own, "init_lora_weights", begun), kLlamaLora),
             cat("init_lora_weights = \"", begun, "\" is not supported"));
  }
  contains(refusal(changed(temp, "alora_invocation_tokens", {1, 2}), kLlamaLora),
           "alora_invocation_tokens is not supported");
  contains(refusal(changed(temp, "a_key_of_later_versions", true), kLlamaLora),
           "a_key_of_later_versions is not supported");
  contains(refusal(peft, cat(kLlamaLora, "modules_to_save = [\"embed_tokens\"]\n")),
           "model.embed_tokens.weight is missing");
  contains(refusal(changed(temp, "bias", "all"), kLlamaLora), "bias = \"all\" is not supported");
  contains(refusal(changed(temp, "peft_type", "IA3"), kLlamaLora), "peft_type is \"IA3\"");
  // With rsLoRA, the factor of an adapter is alpha / sqrt(rank).
  const fs::path root = changed(temp, "use_rslora", true);
  contains(refusal(root, kLlamaLora), "lora.alpha = 6, lora.use_rslora = true");
  CHECK(refusal(root, cat(kLlamaLora, "use_rslora = true\n")).empty());
  CHECK(refusal(root, "rank = 4\nalpha = 12\ntarget_modules = [\"all-linear\"]\n").empty());
}

TEST_CASE("an export is PEFT's, from any layout") {
  const TemporaryFolder temp;
  const std::string dora = cat(kLlamaLora, "use_dora = true\n");
  const std::string saved =
      "rank = 4\nalpha = 6\ntarget_modules = [\"q_proj\", \"v_proj\"]\n"
      "modules_to_save = [\"lm_head\", \"embed_tokens\"]\n";
  for (const auto& [name, peft, lora, layout, ranks] :
       {std::tuple{"one", "llama", std::string(kLlamaLora), test::float32_fsdp2(1), 1},
        {"fsdp", "llama", kLlamaLora, test::float32_fsdp2(3), 3},
        {"tp", "llama", kLlamaLora, test::float32_fsdp2(2, "tp_size = 2\n"), 2},
        {"dora", "llama-dora", dora, test::float32_fsdp2(4, "tp_size = 2\n"), 4},
        {"saved", "llama-saved", saved, test::float32_fsdp2(4, "tp_size = 2\n"), 4}}) {
    const config::Plan plan = test::parse(plan_text("llama", lora, layout));
    const fs::path folder = temp / name;
    runtime::run_ranks(ranks, [&, peft = peft](const runtime::World& world) {
      test::RankModel rank(plan, world);
      load_adapter(*rank.model, adapter(peft));
      export_hf(folder, *rank.model);
    });
    INFO(name);
    const auto theirs =
        frameworks::open_tensor_source(adapter(peft) + "/adapter_model.safetensors");
    const auto ours = frameworks::open_tensor_source(folder / "adapter_model.safetensors");
    CHECK(!fs::exists(folder / "config.json"));
    REQUIRE(ours->tensors().size() == theirs->tensors().size());
    for (const stored::StoredTensor& stored : theirs->tensors()) {
      INFO(stored.name);
      REQUIRE(ours->find(stored.name) != nullptr);
      CHECK(at::equal(checkpoint::read_all(*ours, stored.name),
                      checkpoint::read_all(*theirs, stored.name)));
    }
    const Json config = Json::parse(read_file(folder / "adapter_config.json"));
    CHECK(config.at("r") == 4);
    CHECK(config.at("lora_alpha") == 6.0);
    CHECK(config.at("peft_type") == "LORA");
    CHECK(config.at("fan_in_fan_out") == false);
    CHECK(config.at("use_dora") == (lora == dora));
    if (lora == saved) {
      CHECK(config.at("target_modules") == Json({"q_proj", "v_proj"}));
      CHECK(config.at("modules_to_save") == Json({"lm_head", "model.embed_tokens"}));
    } else {
      CHECK(config.at("target_modules") ==
            Json({"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"}));
      CHECK(config.at("modules_to_save").is_null());
    }
    CHECK(refusal(folder, lora).empty());
  }
}

TEST_CASE("targets are named whole where the end of a name has other modules too") {
  const auto targets = [](const std::string& family, const std::string& lora) {
    test::RankModel rank(test::parse(plan_text(family, lora)), runtime::World::single());
    return Json::parse(adapter_config(*rank.model));
  };
  CHECK(targets("llama", "rank = 4\ntarget_modules = [\"model.layers.0.*.q_proj\"]\n")
            .at("target_modules") == Json({"model.layers.0.self_attn.q_proj"}));
  CHECK(targets("qwen2_moe", "rank = 4\ntarget_modules = [\"shared_expert.up_proj\"]\n")
            .at("target_modules") == Json({"model.layers.1.mlp.shared_expert.up_proj"}));
  const Json gpt2 = targets("gpt2", "rank = 4\ndropout = 0.25\ntarget_modules = [\"c_attn\"]\n");
  CHECK(gpt2.at("fan_in_fan_out") == true);
  CHECK(gpt2.at("lora_dropout") == 0.25);
}

TEST_CASE("a merged export gives the adapter's logits without it") {
  const TemporaryFolder temp;
  for (const auto& [name, targets, ranks] :
       {std::tuple{"llama", "[\"all-linear\"]\n", 2},
        {"phi3", "[\"all-linear\"]\n", 1},
        {"gpt2", "[\"c_attn\", \"c_fc\", \"c_proj\"]\n", 3},
        {"llama-dora", "[\"all-linear\"]\nuse_dora = true\n", 2},
        {"gpt2-dora", "[\"c_attn\", \"c_fc\", \"c_proj\"]\nuse_dora = true\n", 3},
        {"llama-saved",
         "[\"q_proj\", \"v_proj\"]\nmodules_to_save = [\"embed_tokens\", \"lm_head\"]\n", 2}}) {
    const std::string family = split(name, '-').front();
    const std::string lora = cat("rank = 4\nalpha = 6\ntarget_modules = ", targets);
    const config::Plan plan = test::parse(plan_text(family, lora, test::float32_fsdp2(ranks)));
    const fs::path folder = temp / name;
    runtime::run_ranks(ranks, [&, name = name](const runtime::World& world) {
      test::RankModel rank(plan, world);
      load(*rank.model, *frameworks::open_tensor_source(
                            test::data_path(cat("hf/", family, "/model.safetensors"))));
      load_adapter(*rank.model, adapter(name));
      export_hf(folder, *rank.model, {.adapters = AdapterExport::kMerged});
    });
    INFO(name);
    CHECK(!fs::exists(folder / "adapter_config.json"));
    const config::Plan merged =
        test::parse(cat("[model]\npath = \"", folder.string(), "\"\n[train]\nseq_len = 16\n",
                        "micro_batch_size = 2\n", test::float32_fsdp2(1)));
    test::RankModel rank(merged, runtime::World::single());
    load_or_initialize(*rank.model, merged);
    CHECK(test::relative_difference(logits_of(*rank.model, name), peft_logits(name)) < 1e-5);
  }
}

}  // namespace am::checkpoint
