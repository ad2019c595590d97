// Tests weights that do not fit the model: codes of quantised weights, unknown tensors, and files
// that only Python's pickle can read. Each test changes a copy of tests/data/hf/llama.
#include "am/stored/fit.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/formats/safetensors.h"
#include "am/frameworks/open_weights.h"
#include "am/tensor/dtype.h"
#include "support/plans.h"
#include "support/temporary_folder.h"

namespace am::checkpoint {
namespace {

namespace fs = std::filesystem;

using Tensors = std::map<std::string, at::Tensor>;

Tensors llama() {
  const auto source = frameworks::open_tensor_source(test::data_path("hf/llama/model.safetensors"));
  Tensors tensors;
  for (const auto& tensor : source->tensors()) {
    tensors[tensor.name] = checkpoint::read_all(*source, tensor.name);
  }
  return tensors;
}

Json llama_config() { return Json::parse(read_file(test::data_path("hf/llama/config.json"))); }

void write(const fs::path& folder, const Tensors& tensors, const Json& config = llama_config()) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump(2);
  std::vector<formats::SafetensorsItem> items;
  for (const auto& [name, value] : tensors) {
    items.push_back({name, formats::safetensors_name(tensor::stored_dtype(value.scalar_type())),
                     value.sizes().vec()});
  }
  formats::SafetensorsWriter writer(folder / "model.safetensors", items, {});
  for (const auto& [name, value] : tensors) {
    const at::Tensor dense = value.contiguous();
    writer.write({static_cast<const std::byte*>(dense.data_ptr()), dense.nbytes()});
  }
  writer.close();
}

config::Plan plan_for(const fs::path& folder, const std::string& weights = "auto") {
  return test::parse(
      cat("[model]\npath = \"", folder.string(), "\"\nweights = \"", weights,
          "\"\n[train]\nseq_len = 16\n[mesh]\nworld_size = 1\n[strategy]\n",
          "mp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\" }\n"));
}

// Returns the error of loading the folder's weights into its config's model; empty if they load.
std::string refusal(const fs::path& folder) {
  const config::Plan plan = plan_for(folder);
  test::RankModel rank(plan, runtime::World::single());
  try {
    load_or_initialize(*rank.model, plan);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    return cat(error.what(), " | ", error.hint());
  }
  return {};
}

constexpr const char* kQuery = "model.layers.0.self_attn.q_proj";
constexpr const char* kQueryWeight = "model.layers.0.self_attn.q_proj.weight";

}  // namespace

TEST_CASE("codes of quantised weights are not taken for numbers") {
  const TemporaryFolder temp;
  Tensors tensors = llama();
  at::Tensor& query = tensors.at(kQueryWeight);
  std::string dtype;
  SECTION("FP8 with a scale, as compressed-tensors writes it") {
    dtype = "F8_E4M3";
    tensors[cat(kQuery, ".weight_scale")] = at::full({1}, 0.01);
    query = (query / 0.01).to(at::kFloat8_e4m3fn);
  }
  SECTION("int8 with SCB, as bitsandbytes writes it") {
    dtype = "I8";
    tensors[cat(kQuery, ".SCB")] = at::full({query.size(0)}, 0.1);
    query = query.mul(1000).round().clamp(-127, 127).to(at::kChar);
  }
  SECTION("bytes alone") {
    dtype = "U8";
    query = query.to(at::kByte);
  }
  SECTION("booleans") {
    dtype = "BOOL";
    query = query.gt(0);
  }
  write(temp / "model", tensors);
  const std::string said = refusal(temp / "model");
  CHECK(said.find(cat(kQueryWeight, " is ", dtype)) != std::string::npos);
  CHECK(said.find("dequantise") != std::string::npos);
}

TEST_CASE("a config that describes quantised weights is not loaded from") {
  const TemporaryFolder temp;
  Json config = llama_config();
  config["quantization_config"] = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}};
  write(temp / "model", llama(), config);
  const std::string said = refusal(temp / "model");
  CHECK(said.find("quantization_config (fp8)") != std::string::npos);
  // The model itself can start from random values, and its export is not quantised.
  const config::Plan plan = plan_for(temp / "model", "none");
  test::RankModel rank(plan, runtime::World::single());
  load_or_initialize(*rank.model, plan);
  export_hf(temp / "export", *rank.model);
  const Json exported = Json::parse(read_file(temp / "export/config.json"));
  CHECK_FALSE(exported.contains("quantization_config"));
  CHECK(refusal(temp / "export").empty());
}

TEST_CASE("tensors at rest are exported as what they are") {
  const TemporaryFolder temp;
  Json config = llama_config();
  config["quantization_config"] = {{"quant_method", "fp8"}};
  Tensors tensors = llama();
  SECTION("numbers under an old quantization_config lose it") {
    write(temp / "model", tensors, config);
    export_hf(temp / "export", *frameworks::open_tensor_source(temp / "model"),
              {.dtype = at::kBFloat16});
    const Json exported = Json::parse(read_file(temp / "export/config.json"));
    CHECK_FALSE(exported.contains("quantization_config"));
  }
  SECTION("codes are copied with their config, and not converted") {
    tensors.at(kQueryWeight) = tensors.at(kQueryWeight).to(at::kFloat8_e4m3fn);
    write(temp / "model", tensors, config);
    const auto source = frameworks::open_tensor_source(temp / "model");
    CHECK_THROWS_WITH(export_hf(temp / "export", *source, {.dtype = at::kBFloat16}),
                      Catch::Contains(cat(kQueryWeight, " is F8_E4M3")));
    export_hf(temp / "export", *source);
    CHECK(Json::parse(read_file(temp / "export/config.json")) == config);
    CHECK(frameworks::open_tensor_source(temp / "export")->find(kQueryWeight)->dtype ==
          formats::Dtype::kFloat8E4M3Fn);
  }
}

TEST_CASE("tensors that the model has no place for are an error that lists them") {
  const TemporaryFolder temp;
  Tensors tensors = llama();
  SECTION("a bias that the config does not have") {
    tensors[cat(kQuery, ".bias")] = at::full({32}, 5.0);
    write(temp / "model", tensors);
    const std::string said = refusal(temp / "model");
    CHECK(said.find(cat("has 1 tensor that the model does not have: ", kQuery, ".bias")) !=
          std::string::npos);
    CHECK(said.find("model.weights to the same model") != std::string::npos);
  }
  SECTION("more layers than the config has: the first eight, and how many more") {
    for (const auto& [name, value] : llama()) {
      if (starts_with(name, "model.layers.1.")) {
        tensors[cat("model.layers.2.", name.substr(15))] = value;
      }
    }
    write(temp / "model", tensors);
    const std::string said = refusal(temp / "model");
    CHECK(said.find("has 9 tensors that the model does not have: model.layers.2.") !=
          std::string::npos);
    CHECK(said.find("and 1 more") != std::string::npos);
  }
  SECTION("an adapter") {
    tensors[cat(kQuery, ".lora_A.weight")] = at::zeros({4, 32});
    write(temp / "model", tensors);
    const std::string said = refusal(temp / "model");
    CHECK(said.find("name its folder in lora.weights") != std::string::npos);
    CHECK(said.find("merge_and_unload") != std::string::npos);
  }
  SECTION("scales beside weights that look whole") {
    tensors[cat(kQuery, ".weight_scale_inv")] = at::ones({1, 1});
    write(temp / "model", tensors);
    CHECK(refusal(temp / "model").find("dequantise") != std::string::npos);
  }
  SECTION("four-bit codes in blocks, in the place of experts") {
    tensors["model.layers.0.mlp.experts.gate_up_proj_blocks"] = at::zeros({4, 8, 1, 16}, at::kByte);
    tensors["model.layers.0.mlp.experts.gate_up_proj_scales"] = at::zeros({4, 8, 1}, at::kByte);
    write(temp / "model", tensors);
    CHECK(refusal(temp / "model").find("Mxfp4Config(dequantize=True)") != std::string::npos);
    Json config = llama_config();
    config["quantization_config"] = {{"quant_method", "mxfp4"}};
    write(temp / "named", tensors, config);
    CHECK(refusal(temp / "named").find("Mxfp4Config(dequantize=True)") != std::string::npos);
  }
  SECTION("what is missing and what is too much in one message") {
    tensors.erase(kQueryWeight);
    tensors["model.layers.0.self_attn.qkv_proj.weight"] = at::zeros({64, 32});
    write(temp / "model", tensors);
    const std::string said = refusal(temp / "model");
    CHECK(said.find(cat(kQueryWeight, " is missing")) != std::string::npos);
    CHECK(said.find("qkv_proj.weight") != std::string::npos);
  }
}

TEST_CASE("tables that the model computes, and a tied head, may be in a file") {
  const TemporaryFolder temp;
  Tensors tensors = llama();
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({4});
  tensors["model.rotary_emb.inv_freq"] = at::ones({4});
  write(temp / "model", tensors);
  CHECK(refusal(temp / "model").empty());
  Json config = llama_config();
  config["tie_word_embeddings"] = true;
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  write(temp / "tied", tensors, config);
  CHECK(refusal(temp / "tied").empty());
}

TEST_CASE("weights that only pickle reads do not turn into random ones") {
  const TemporaryFolder temp;
  fs::create_directories(temp / "model");
  std::ofstream(temp / "model/config.json") << llama_config().dump();
  const config::Plan plan = plan_for(temp / "model");
  std::ofstream(temp / "model/optimizer.pt") << "a leftover that holds no weights";
  test::RankModel rank(plan, runtime::World::single());
  CHECK(load_or_initialize(*rank.model, plan) == "initialised with seed 0");
  const std::string name =
      GENERATE("pytorch_model.bin", "pytorch_model-00001-of-00002.bin",
               "pytorch_model.bin.index.json", "consolidated.00.pth", "model.pt");
  std::ofstream(temp.path() / "model" / name) << "pickled";
  CHECK_THROWS_WITH(load_or_initialize(*rank.model, plan), Catch::Contains(name));
  const config::Plan random = plan_for(temp / "model", "none");
  CHECK(load_or_initialize(*rank.model, random) == "initialised with seed 0");
}

}  // namespace am::checkpoint
