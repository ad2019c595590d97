// Tests files of torch.save: the names, strides and values of their tensors
// (tests/data/dcp/plain.pt), and files that are refused.
#include "am/stored/torch_source.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace am::checkpoint {
namespace {

namespace fs = std::filesystem;

// A file created by a test.
struct TorchFile {
  fs::path path = fs::temp_directory_path() / cat("am_torch_source_", ::getpid(), ".pt");

  explicit TorchFile(const std::string& bytes) { write_file_atomically(path, bytes); }
  ~TorchFile() { fs::remove(path); }
  TorchFile(const TorchFile&) = delete;
  TorchFile& operator=(const TorchFile&) = delete;
};

const fs::path kPlainFile = fs::path(test::kDataFolder) / "dcp" / "plain.pt";

}  // namespace

TEST_CASE("tensors of a file of torch.save, of today's format and the one before") {
  const std::string name = GENERATE("plain.pt", "legacy.pt");
  const auto source = frameworks::open_tensor_source(fs::path(test::kDataFolder) / "dcp" / name);
  CHECK(source->format() == (name == "plain.pt" ? "torch" : "torch-legacy"));
  const at::Tensor embedding = at::arange(6, at::kFloat).view({2, 3});
  CHECK(at::equal(checkpoint::read_all(*source, "embed.weight"), embedding));
  CHECK(at::equal(checkpoint::read_all(*source, "head.weight"), embedding));
  CHECK(at::equal(checkpoint::read_all(*source, "part"), embedding.slice(0, 1).slice(1, 1)));
  CHECK(at::equal(checkpoint::read_all(*source, "transposed"), embedding.t()));
  CHECK(at::equal(checkpoint::read_all(*source, "parameter"),
                  at::tensor({1.0, 2.0}).to(at::kBFloat16)));
  CHECK(source->find("step") == nullptr);
  at::Tensor box = at::empty({2, 1}, at::kFloat);
  checkpoint::read(*source, "transposed", {{1, 1}, {2, 1}}, box);
  CHECK(at::equal(box, embedding.t().slice(0, 1).slice(1, 1)));
}

TEST_CASE("the model of a trainer's file, and the state beside it") {
  const auto source =
      frameworks::open_tensor_source(fs::path(test::kDataFolder) / "dcp" / "trainer.pt");
  std::vector<std::string> names;
  for (const auto& each : source->tensors()) names.push_back(each.name);
  CHECK(names == std::vector<std::string>{"0.bias", "0.weight"});
  names.clear();
  for (const auto& each : source->optimizer_tensors()) names.push_back(each.name);
  CHECK(names == std::vector<std::string>{"optim.state.0.exp_avg", "optim.state.0.exp_avg_sq",
                                          "optim.state.0.step", "optim.state.1.exp_avg",
                                          "optim.state.1.exp_avg_sq", "optim.state.1.step",
                                          "seed"});
}

namespace {

using Tensors = std::map<std::string, at::Tensor>;

// Writes a file that PyTorch loads as a dict of tensors.
void save(const fs::path& path, const Tensors& tensors) {
  c10::Dict<std::string, at::Tensor> dict;
  for (const auto& [name, value] : tensors) dict.insert(name, value);
  const std::vector<char> bytes = torch::jit::pickle_save(dict);
  write_file_atomically(path, std::string(bytes.begin(), bytes.end()));
}

std::vector<std::string> names_of(const std::vector<stored::StoredTensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& each : tensors) names.push_back(each.name);
  return names;
}

}  // namespace

TEST_CASE("folders of pytorch_model.bin, in one file and in several") {
  using Names = std::vector<std::string>;
  const TemporaryFolder temp;
  const at::Tensor a = at::arange(6, at::kFloat), b = at::arange(4, at::kFloat).neg();
  save(temp / "optimizer.pt", {{"exp_avg", a}});
  CHECK_FALSE(frameworks::is_tensor_source(temp.path()));
  save(temp / "results.pt", {{"a", b}});
  CHECK(names_of(frameworks::open_tensor_source(temp.path())->tensors()) == Names{"a"});
  save(temp / "more.pt", {{"a", b}});
  CHECK_THROWS_WITH(frameworks::open_tensor_source(temp.path()),
                    Catch::Contains("2 files may hold the model: more.pt, results.pt"));

  save(temp / "pytorch_model_fsdp.bin", {{"module.a", a}});
  save(temp / "optimizer.bin", {{"state.a.exp_avg", b}});
  {
    const auto source = frameworks::open_tensor_source(temp.path());
    CHECK(names_of(source->tensors()) == Names{"a"});
    CHECK(names_of(source->optimizer_tensors()) == Names{"optim.state.a.exp_avg"});
    CHECK(at::equal(checkpoint::read_all(*source, "a"), a));
    CHECK(at::equal(checkpoint::read_all(*source, "optim.state.a.exp_avg"), b));
  }

  fs::create_directories(temp / "more");
  save(temp / "pytorch_model-00001-of-00002.bin", {{"a", a}});
  save(temp / "more" / "pytorch_model-00002-of-00002.bin", {{"b", b}});
  const auto write_index = [&](const Json& map) {
    write_file_atomically(temp / "pytorch_model.bin.index.json", Json{{"weight_map", map}}.dump());
  };
  const std::string first = "pytorch_model-00001-of-00002.bin";
  write_index({{"a", first}, {"b", "more/pytorch_model-00002-of-00002.bin"}});
  const auto source = frameworks::open_tensor_source(temp.path());
  CHECK(names_of(source->tensors()) == Names{"a", "b"});
  CHECK(at::equal(checkpoint::read_all(*source, "b"), b));
  CHECK(source->data_files().size() == 2);
  write_index({{"a", first}, {"b", "lost.bin"}});
  CHECK_THROWS_WITH(frameworks::open_tensor_source(temp.path()), Catch::Contains("lost.bin"));
  CHECK(frameworks::open_tensor_source(temp.path(), stored::OnDamage::kReport)->damage().size() ==
        1);

  save(temp / "pytorch_model.bin", {{"c", a}});  // precedes the index, as in transformers
  CHECK(names_of(frameworks::open_tensor_source(temp.path())->tensors()) == Names{"c"});
}

TEST_CASE("optimizer states that have their parameters' names need no numbers") {
  const TemporaryFolder temp;
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(fs::path(test::kDataFolder) / "hf" / "llama" / name, temp / name);
  }
  const std::string norm = "model.norm.weight";
  const at::Tensor moment = at::arange(4, at::kFloat);
  c10::Dict<std::string, at::Tensor> state;
  state.insert("exp_avg", moment);
  c10::Dict<std::string, c10::Dict<std::string, at::Tensor>> states;
  states.insert(norm, state);
  c10::Dict<std::string, c10::List<std::string>> group;
  group.insert("params", c10::List<std::string>({norm}));
  c10::List<c10::Dict<std::string, c10::List<std::string>>> groups;
  groups.push_back(group);
  c10::impl::GenericDict whole(c10::StringType::get(), c10::AnyType::get());
  whole.insert("state", states);
  whole.insert("param_groups", groups);
  const std::vector<char> bytes = torch::jit::pickle_save(whole);
  write_file_atomically(temp / "optimizer.bin", std::string(bytes.begin(), bytes.end()));
  const auto source = frameworks::open_tensor_source(temp.path());
  CHECK(source->note().empty());
  CHECK(at::equal(checkpoint::read_all(*source, cat("optim.state.", norm, ".exp_avg")), moment));
}

TEST_CASE("epochs of a training are not ranks of a model") {
  const TemporaryFolder temp;
  const at::Tensor a = at::arange(6, at::kFloat);
  save(temp / "model_0.pt", {{"a", a}});
  save(temp / "model_1.pt", {{"a", a + 1}});
  CHECK_THROWS_WITH(frameworks::open_tensor_source(temp.path()),
                    Catch::Contains("a differs between model_0.pt and model_1.pt"));
  save(temp / "model_1.pt", {{"a", a}});
  CHECK(at::equal(checkpoint::read_all(*frameworks::open_tensor_source(temp.path()), "a"), a));
}

TEST_CASE("a replica of a shard is compared with the shard of the same box") {
  const TemporaryFolder temp;
  const at::Tensor whole = at::arange(8, at::kFloat);
  stored::TorchFiles files{.format = "torch", .path = temp.path(), .by_rank = true};
  for (int64_t rank = 0; rank < 4; ++rank) {
    const fs::path file = temp / cat("model_", rank, ".pt");
    save(file, {{"a", whole.narrow(0, rank % 2 * 4, 4).clone()}});
    files.parts.push_back({file, {}, rank});
  }
  files.place = [](const stored::KeyPath&, int64_t rank) {
    const mesh::Box own = {{rank % 2 * 4}, {4}};
    return stored::PartPlace{.shape = {8}, .dtype = "float32", .boxes = {{own, {0}}}};
  };
  CHECK(at::equal(checkpoint::read_all(*stored::open_torch_files(files), "a"), whole));
  save(temp / "model_3.pt", {{"a", at::zeros({4})}});
  CHECK_THROWS_WITH(stored::open_torch_files(files),
                    Catch::Contains("a differs between model_1.pt and model_3.pt"));
}

TEST_CASE("safetensors of other names do not stand for pytorch_model.bin") {
  const TemporaryFolder temp;
  save(temp / "pytorch_model.bin", {{"a", at::ones({2})}});
  write_file_atomically(temp / "ema.safetensors", "not looked at");
  CHECK(frameworks::open_tensor_source(temp.path())->format() == "torch");
}

TEST_CASE("files of torch.save that are not read") {
  {
    std::string tar(512, '\0');
    tar.replace(257, 5, "ustar");
    const TorchFile old(tar);
    CHECK_THROWS_WITH(frameworks::open_tensor_source(old.path),
                      Catch::Contains("a tar file of PyTorch before 2017"));
  }
  {
    std::string bytes = read_file(kPlainFile);
    const size_t at = bytes.find("torch._utils\n_rebuild_tensor_v2\n");
    REQUIRE(at != std::string::npos);
    bytes.replace(at, 33, "posix.......\nsystem............\n");
    const TorchFile changed(bytes);
    CHECK_THROWS_AS(frameworks::open_tensor_source(changed.path), Error);
  }
  {
    std::string bytes = read_file(kPlainFile);
    const size_t at = bytes.find("torch._utils\n_rebuild_parameter\n");
    REQUIRE(at != std::string::npos);
    bytes.replace(at, 32, "asyncio.base\n_rebuild_parameter\n", 32);
    const TorchFile changed(bytes);
    CHECK_THROWS_WITH(
        frameworks::open_tensor_source(changed.path),
        Catch::Contains("names asyncio.base._rebuild_parameter: torch.load would call"));
  }
}

TEST_CASE("files of the older format that lie") {
  const std::string bytes = read_file(fs::path(test::kDataFolder) / "dcp" / "legacy.pt");
  const auto problem = [](const std::string& changed) {
    const TorchFile file(changed);
    try {
      frameworks::open_tensor_source(file.path);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(problem(bytes) == "none");
  const auto with = [&](const std::string& old, const std::string& text) {
    std::string changed = bytes;
    const size_t at = changed.find(old);
    REQUIRE(at != std::string::npos);
    return problem(changed.replace(at, old.size(), text));
  };
  // In the file, the number of elements of a storage (6) precedes its float32 values, of which the
  // first two are 0 and 1.
  const std::string six("\6\0\0\0\0\0\0\0\0\0\0\0\0\0\x80?", 16);
  CHECK(with(six, std::string("\7") + six.substr(1))
            .find("has 7 elements, but its tensors expect 6") != std::string::npos);
  CHECK(with(six, std::string("\6\0\0\0\0\0\0\x80") + six.substr(8)).find("elements, but its") !=
        std::string::npos);
  CHECK(with("FloatStorage", "FloatStorexx").find("unknown class of a storage") !=
        std::string::npos);
  CHECK(with("torch._utils\n_rebuild_parameter\n", "asyncio.base\n_rebuild_parameter\n")
            .find("torch.load would call") != std::string::npos);
  CHECK(with("little_endian", "middle_endian").find("byte order") != std::string::npos);
}

}  // namespace am::checkpoint
