// Tests exports to folders of torch.distributed.checkpoint: the folders are read back bit by bit.
#include "am/checkpoint/export_dcp.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/checkpoint/filled_tensor.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace am::checkpoint {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(test::kDataFolder) / "hf";

bool bit_equal(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 ||
          std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0);
}

// Opens a fixture's model.safetensors, because its folder also contains other safetensors files. If
// there is no such file, opens the folder.
std::unique_ptr<stored::TensorSource> open_model(const std::string& family) {
  const fs::path folder = kModels / family;
  return frameworks::open_tensor_source(
      fs::exists(folder / "model.safetensors") ? folder / "model.safetensors" : folder);
}

void check_same_tensors(const stored::TensorSource& exported, const stored::TensorSource& source,
                        std::optional<at::ScalarType> dtype = {}) {
  REQUIRE(exported.tensors().size() == source.tensors().size());
  for (const stored::StoredTensor& tensor : source.tensors()) {
    INFO(tensor.name);
    REQUIRE(exported.find(tensor.name) != nullptr);
    const at::Tensor expected = checkpoint::read_all(source, tensor.name);
    CHECK(bit_equal(checkpoint::read_all(exported, tensor.name),
                    dtype ? expected.to(*dtype) : expected));
  }
  exported.verify({[](const stored::StoredProblem& problem) { FAIL_CHECK(problem.what); }, {}});
}

std::string export_error(const stored::TensorSource& source, const DcpExport& options) {
  const TemporaryFolder temporary;
  try {
    export_dcp(temporary / "out", source, options);
  } catch (const Error& error) {
    CHECK_FALSE(fs::exists(temporary / "out"));
    CHECK_FALSE(fs::exists(temporary / "out.tmp"));
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("models of every family come back from a dcp folder to the bit") {
  size_t models = 0;
  for (const auto& entry : fs::directory_iterator(kModels)) {
    const std::string family = entry.path().filename().string();
    INFO(family);
    if (!frameworks::is_tensor_source(entry.path())) continue;  // a config without weights
    const TemporaryFolder temporary;
    const auto source = open_model(family);
    export_dcp(temporary / "out", *source, {});
    const auto exported = frameworks::open_tensor_source(temporary / "out");
    CHECK(exported->format() == "dcp");
    check_same_tensors(*exported, *source);
    ++models;
  }
  CHECK(models >= 25);
}

TEST_CASE("models come back from a framework's names and rows to the bit") {
  const std::map<const frameworks::NameTable*, std::vector<std::string>> families = {
      {&frameworks::torchtitan_table(), {"llama", "mistral", "qwen3", "qwen3_moe", "deepseek_v3"}},
      {&frameworks::olmo_table(),
       {"llama", "llama-sharded", "mistral", "qwen2", "qwen3", "olmo2", "gemma3_text"}},
      {&frameworks::megatron_table(),
       {"llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen2_moe", "qwen3_moe"}}};
  for (const auto& [table, names] : families) {
    for (const std::string& family : names) {
      INFO(table->framework << ": " << family);
      const TemporaryFolder temporary;
      const auto source = open_model(family);
      export_dcp(temporary / "out", *source, {.table = table});
      const auto exported = frameworks::open_tensor_source(temporary / "out");
      CHECK(exported->format() == table->format);
      check_same_tensors(*exported, *source);
    }
  }
}

TEST_CASE("an export converts on its way, and takes an optimizer's state along") {
  const TemporaryFolder temporary;
  const auto source = open_model("llama");
  export_dcp(temporary / "half", *source,
             {.table = &frameworks::megatron_table(), .dtype = at::kBFloat16});
  check_same_tensors(*frameworks::open_tensor_source(temporary / "half"), *source, at::kBFloat16);
  CHECK_THAT(read_file(temporary / "half" / "config.json"), Catch::Contains("bfloat16"));

  const auto trained =
      frameworks::open_tensor_source(fs::path(test::kDataFolder) / "dcp" / "fsdp2");
  export_dcp(temporary / "alone", *trained, {});
  CHECK(frameworks::open_tensor_source(temporary / "alone")->optimizer_tensors().empty());
  export_dcp(temporary / "all", *trained, {.optimizer = true});
  const auto all = frameworks::open_tensor_source(temporary / "all");
  check_same_tensors(*all, *trained);
  size_t states = 0;
  for (const stored::StoredTensor& state : trained->optimizer_tensors()) {
    INFO(state.name);
    if (!starts_with(state.name, "optim.state.")) continue;  // the entry "seen" is not a state
    CHECK(bit_equal(checkpoint::read_all(*all, state.name),
                    checkpoint::read_all(*trained, state.name)));
    ++states;
  }
  CHECK(states == 15);
  CHECK(all->optimizer_tensors().size() == states);
}

TEST_CASE("any run of stored rows is filled as the whole is") {
  Diagnostics found;
  const auto plain = open_model("llama");
  const auto llama_config = model::load_config(kModels / "llama" / "config.json", found);
  REQUIRE(llama_config);
  for (const auto* table : {&frameworks::torchtitan_table(), &frameworks::megatron_table()}) {
    for (const FilledTensor& tensor :
         fill_all(frameworks::NameMap(*table, *llama_config), *plain)) {
      INFO(table->framework << ": " << tensor.name);
      const int64_t rows = tensor.rows();
      const at::Tensor whole = at::empty({rows, tensor.row_numel()});
      read_filled_rows(*plain, tensor, {0, rows}, whole);
      for (const int64_t step : {1, 3, 7}) {
        const at::Tensor pieces = at::zeros_like(whole);
        for (int64_t row = 0; row < rows; row += step) {
          const int64_t count = std::min(step, rows - row);
          read_filled_rows(*plain, tensor, {row, count}, pieces.narrow(0, row, count));
        }
        CHECK(at::equal(pieces, whole));
      }
    }
  }
}

TEST_CASE("what a framework has no place for is named, and nothing is left") {
  CHECK_THAT(export_error(*open_model("gpt2"), {.table = &frameworks::torchtitan_table()}),
             Catch::Contains("torchtitan's tensor names for model_type gpt2 are not known"));
  CHECK_THAT(export_error(*open_model("llama-bias"), {.table = &frameworks::torchtitan_table()}),
             Catch::Contains("has no name for") &&
                 Catch::Contains("model.layers.0.self_attn.q_proj.bias"));
  const auto no_config =
      frameworks::open_tensor_source(fs::path(test::kDataFolder) / "dcp" / "fsdp2");
  CHECK_THAT(export_error(*no_config, {.table = &frameworks::olmo_table()}),
             Catch::Contains("config.json"));
  const auto source = open_model("llama");
  const TemporaryFolder temporary;
  int calls = 0;
  CHECK_THROWS_AS(export_dcp(temporary / "out", *source, {},
                             [&] {
                               if (++calls == 5) throw Error(ErrorKind::kUsage, "interrupted");
                             }),
                  Error);
  CHECK_FALSE(fs::exists(temporary / "out"));
  CHECK_FALSE(fs::exists(temporary / "out.tmp"));
}

TEST_CASE("torchtitan's checkpoint is exported to Hugging Face's files") {
  const TemporaryFolder temporary;
  const fs::path titan = fs::path(test::kDataFolder) / "frameworks" / "torchtitan";
  export_hf(temporary / "hub", *frameworks::open_tensor_source(titan / "step-2"));
  const auto exported = frameworks::open_tensor_source(temporary / "hub");
  const auto expected = frameworks::open_tensor_source(titan / "expected.safetensors");
  CHECK(exported->tensors().size() == 21);
  for (const stored::StoredTensor& each : exported->tensors()) {
    CHECK(bit_equal(read_all(*exported, each.name), read_all(*expected, each.name)));
  }
}

}  // namespace am::checkpoint
