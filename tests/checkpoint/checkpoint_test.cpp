// Tests loading weights, reading checkpoints under another layout, and exporting.
#include "am/checkpoint/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/run_folder/shard_index.h"
#include "support/plans.h"
#include "support/temporary_folder.h"

namespace am::checkpoint {
namespace {

using test::kFullPrecision;

namespace fs = std::filesystem;

config::Plan plan_for(const std::string& family, int64_t world, const std::string& mesh,
                      const std::string& strategy = "fsdp2") {
  return test::parse(cat("[model]\npath = \"hf/", family,
                         "\"\nseed = 7\n[train]\nseq_len = 16\n[mesh]\nworld_size = ", world, "\n",
                         mesh, "[strategy]\nname = \"", strategy, "\"\n",
                         strategy == "fsdp2" ? kFullPrecision : ""));
}

// Returns all parameters of a model built on `plan`'s ranks and filled by `fill`.
std::map<std::string, at::Tensor> parameters_under(
    const config::Plan& plan, int64_t ranks,
    const std::function<void(parallel::ParallelModel&)>& fill) {
  std::map<std::string, at::Tensor> all;
  std::mutex mutex;
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    fill(*rank.model);
    for (const auto& parameter : rank.layout.parameters) {
      const at::Tensor full = rank.model->full_parameter(parameter.name);
      const std::lock_guard lock(mutex);
      if (world.rank() == 0) all[parameter.name] = full.clone();
    }
  });
  return all;
}

void check_same(const std::map<std::string, at::Tensor>& a,
                const std::map<std::string, at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, value] : a) {
    INFO(name);
    CHECK(at::equal(value, b.at(name)));
  }
}

void save_under(const config::Plan& plan, int64_t ranks, const fs::path& folder) {
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    load_or_initialize(*rank.model, plan);
    run_folder::CheckpointInfo info;
    info.step = 3;
    info.world_size = world.size();
    info.mesh = rank.layout.mesh.sizes();
    info.model_type = rank.config.model_type;
    save_checkpoint(folder, {info, config::to_toml(plan)}, *rank.model);
  });
}

}  // namespace

TEST_CASE("initial values do not depend on the layout") {
  const std::string family = GENERATE("llama", "qwen2", "qwen3");
  const auto initial = [](parallel::ParallelModel& model) { initialize(model, 7); };
  const auto one = parameters_under(plan_for(family, 1, ""), 1, initial);
  check_same(parameters_under(plan_for(family, 3, ""), 3, initial), one);
  check_same(parameters_under(plan_for(family, 2, "tp_size = 2\n"), 2, initial), one);
  check_same(parameters_under(plan_for(family, 4, "tp_size = 2\n"), 4, initial), one);
  check_same(parameters_under(plan_for(family, 2, "", "ddp"), 2, initial), one);
  const at::Tensor& drawn = one.at("model.embed_tokens.weight");
  CHECK(drawn.std().item<double>() == Approx(0.02).epsilon(0.05));
  CHECK(std::abs(drawn.mean().item<double>()) < 0.002);
  CHECK(at::equal(one.at("model.norm.weight"), at::ones({32})));
}

TEST_CASE("Hugging Face weights load into every layout, from one file or several") {
  const config::Plan plan = plan_for("llama", 4, "tp_size = 2\n");
  const std::string folder = GENERATE("hf/llama", "hf/llama-sharded");
  const auto source = frameworks::open_tensor_source(test::data_path(folder));
  const auto loaded =
      parameters_under(plan, 4, [&](parallel::ParallelModel& model) { load(model, *source); });
  for (const auto& [name, value] : loaded)
    CHECK(at::equal(value, checkpoint::read_all(*source, name)));
}

TEST_CASE("a checkpoint of any layout is read by any other") {
  const TemporaryFolder temp;
  const fs::path folder = temp.path() / "step-3";
  save_under(plan_for("qwen3", 4, "tp_size = 2\n"), 4, folder);
  CHECK(run_folder::read_checkpoint_info(folder).step == 3);
  CHECK_FALSE(fs::exists(folder.string() + ".tmp"));
  const auto source = frameworks::open_tensor_source(folder);
  CHECK(source->format() == "automesh");
  const auto* stored = source->find("model.layers.0.self_attn.q_proj.weight");
  REQUIRE(stored != nullptr);
  CHECK(stored->shards.size() == 4);
  for (const int64_t ranks : {1, 3}) {
    const auto loaded =
        parameters_under(plan_for("qwen3", ranks, ""), ranks,
                         [&](parallel::ParallelModel& model) { load(model, *source); });
    const auto original = frameworks::open_tensor_source(test::data_path("hf/qwen3"));
    for (const auto& [name, value] : loaded) {
      INFO(name);
      CHECK(at::equal(value, checkpoint::read_all(*original, name)));
    }
  }
}

TEST_CASE("replicas are written once, by each rank about as much") {
  const TemporaryFolder temp;
  const fs::path folder = temp.path() / "step-3";
  save_under(plan_for("llama", 2, "", "ddp"), 2, folder);
  CHECK(frameworks::open_tensor_source(folder)->find("model.norm.weight")->shards.size() == 1);
  const auto index = run_folder::read_shard_index(folder / run_folder::kIndexFile);
  std::vector<int64_t> bytes(2);
  int64_t largest = 0;
  for (const auto& tensor : index.tensors) {
    for (const auto& box : tensor.boxes) {
      const int64_t size = box.box.numel() * tensor.element_bytes();
      bytes[box.file] += size;
      largest = std::max(largest, size);
    }
  }
  CHECK(std::abs(bytes[0] - bytes[1]) <= largest);
}

TEST_CASE("an export holds the same values, in one file or several") {
  const TemporaryFolder temp;
  const auto original = frameworks::open_tensor_source(test::data_path("hf/qwen2"));
  const int64_t limit = GENERATE(int64_t{5'000'000'000}, int64_t{20'000});
  const fs::path live = temp.path() / "live";
  const config::Plan plan = plan_for("qwen2", 2, "");
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    load_or_initialize(*rank.model, plan);
    export_hf(live, *rank.model, {.max_file_bytes = limit});
  });
  const fs::path rest = temp.path() / "rest";
  export_hf(rest, *original, {.max_file_bytes = limit});
  for (const auto& folder : {live, rest}) {
    const auto exported = frameworks::open_tensor_source(folder);
    CHECK(exported->tensors().size() == original->tensors().size());
    for (const auto& tensor : original->tensors()) {
      CHECK(at::equal(checkpoint::read_all(*exported, tensor.name),
                      checkpoint::read_all(*original, tensor.name)));
    }
    CHECK(fs::exists(folder / "model.safetensors.index.json") == (limit < 1'000'000));
  }
  CHECK_THROWS_WITH(export_hf(rest, *original), Catch::Contains("not an empty folder"));
}

TEST_CASE("weights are exported without a config") {
  const TemporaryFolder temp;
  const auto original = frameworks::open_tensor_source(test::data_path("hf/llama"));
  export_hf(temp.path() / "alone", *original, {.dtype = at::kBFloat16, .weights_only = true});
  CHECK_FALSE(fs::exists(temp.path() / "alone/config.json"));
  const auto alone = frameworks::open_tensor_source(temp.path() / "alone");
  CHECK(alone->tensors().size() == original->tensors().size());
  CHECK(alone->config_file().empty());
  CHECK_THROWS_WITH(export_hf(temp.path() / "whole", *alone),
                    Catch::Contains("has no config.json"));
  export_hf(temp.path() / "again", *alone, {.weights_only = true});
  CHECK(read_file(temp.path() / "again/model.safetensors") ==
        read_file(temp.path() / "alone/model.safetensors"));
}

TEST_CASE("an export in another dtype says so in its config") {
  const TemporaryFolder temp;
  const auto original = frameworks::open_tensor_source(test::data_path("hf/llama"));
  export_hf(temp.path() / "bf16", *original, {.dtype = at::kBFloat16});
  const auto exported = frameworks::open_tensor_source(temp.path() / "bf16");
  CHECK(exported->tensors().front().dtype == formats::Dtype::kBFloat16);
  CHECK(read_file(temp.path() / "bf16/config.json").find("bfloat16") != std::string::npos);
}

TEST_CASE("weights of another model are refused, with what is wrong") {
  const config::Plan plan = plan_for("qwen3", 1, "");
  const auto source = frameworks::open_tensor_source(test::data_path("hf/llama"));
  test::RankModel rank(plan, runtime::World::single());
  CHECK_THROWS_WITH(load(*rank.model, *source), Catch::Contains("q_norm.weight is missing"));
}

TEST_CASE("a damaged checkpoint is named, never half read") {
  const TemporaryFolder temp;
  const fs::path folder = temp.path() / "step-3";
  save_under(plan_for("llama", 2, ""), 2, folder);
  SECTION("a rank's file is missing") {
    fs::remove(folder / "__1_0.distcp");
    CHECK_THROWS_WITH(frameworks::open_tensor_source(folder), Catch::Contains("__1_0.distcp"));
  }
  SECTION("a rank's file is truncated") {
    fs::resize_file(folder / "__1_0.distcp", fs::file_size(folder / "__1_0.distcp") - 5);
    CHECK_THROWS_WITH(frameworks::open_tensor_source(folder), Catch::Contains("__1_0.distcp"));
  }
  SECTION("a rank's file is another save's") {
    save_under(plan_for("llama", 2, ""), 2, temp.path() / "other/step-3");
    fs::copy_file(temp.path() / "other/step-3/__1_0.distcp", folder / "__1_0.distcp",
                  fs::copy_options::overwrite_existing);
    const std::string here = run_folder::read_checkpoint_info(folder).save_id;
    const std::string there =
        run_folder::read_checkpoint_info(temp.path() / "other/step-3").save_id;
    REQUIRE(here != there);
    CHECK_THROWS_WITH(frameworks::open_tensor_source(folder), Catch::Contains("__1_0.distcp") &&
                                                                  Catch::Contains(here) &&
                                                                  Catch::Contains(there));
  }
  SECTION("a rank's file is in the place of another's") {
    fs::copy_file(folder / "__0_0.distcp", folder / "__1_0.distcp",
                  fs::copy_options::overwrite_existing);
    CHECK_THROWS_WITH(frameworks::open_tensor_source(folder),
                      Catch::Contains("rank 0") && Catch::Contains("rank 1"));
  }
  SECTION("two ranks claim the same part") {
    const fs::path file = folder / run_folder::kIndexFile;
    auto index = run_folder::read_shard_index(file);
    auto& boxes = index.tensors.front().boxes;
    boxes.push_back(boxes.front());
    write_file_atomically(file, run_folder::to_json_text(index));
    CHECK_THROWS_WITH(frameworks::open_tensor_source(folder), Catch::Contains("overlap"));
  }
  SECTION("a part is nowhere") {
    const fs::path file = folder / run_folder::kIndexFile;
    auto index = run_folder::read_shard_index(file);
    index.tensors.front().boxes.pop_back();
    write_file_atomically(file, run_folder::to_json_text(index));
    CHECK_THROWS_AS(frameworks::open_tensor_source(folder), Error);
  }
  SECTION("the index is cut off") {
    fs::resize_file(folder / run_folder::kIndexFile, 200);
    CHECK_THROWS_WITH(frameworks::open_tensor_source(folder),
                      Catch::Contains("index.json: byte 200"));
  }
  SECTION("a bit is another") {
    const std::string name = "model.layers.1.mlp.down_proj.weight";
    const auto index = run_folder::read_shard_index(folder / run_folder::kIndexFile);
    const auto tensor = std::find_if(index.tensors.begin(), index.tensors.end(),
                                     [&](const auto& each) { return each.name == name; });
    REQUIRE(tensor != index.tensors.end());
    const auto& box = tensor->boxes.back();
    const fs::path file = folder / index.files[box.file].name;
    std::string bytes = read_file(file);
    bytes[box.position + 5] ^= 4;
    write_file_atomically(file, bytes);
    const auto source = frameworks::open_tensor_source(folder);
    CHECK_NOTHROW(checkpoint::read_all(*source, "model.norm.weight"));
    CHECK_THROWS_WITH(checkpoint::read_all(*source, name), Catch::Contains(file.string()) &&
                                                               Catch::Contains(name) &&
                                                               Catch::Contains("checksum"));
  }
  SECTION("an unknown version") {
    std::ofstream(folder / "checkpoint.json") << R"({"format":"automesh-checkpoint","version":99})";
    CHECK_THROWS_WITH(frameworks::open_tensor_source(folder), Catch::Contains("version 99"));
  }
  SECTION("no JSON") {
    std::ofstream(folder / "checkpoint.json") << "{";
    CHECK_THROWS_AS(frameworks::open_tensor_source(folder), Error);
  }
}

TEST_CASE("a folder that cannot be written fails on every rank and leaves nothing") {
  const TemporaryFolder temp;
  std::ofstream(temp.path() / "checkpoints") << "a file in the way";
  CHECK_THROWS_AS(save_under(plan_for("llama", 2, ""), 2, temp.path() / "checkpoints/step-3"),
                  Error);
}

}  // namespace am::checkpoint
