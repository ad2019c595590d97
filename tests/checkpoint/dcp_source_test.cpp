// Reads folders that torch.distributed.checkpoint saved (scripts/fixtures/make_dcp_fixtures.py),
// and compares their tensors bit by bit with the saved values.
#include "am/stored/dcp_source.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"
#include "support/folders.h"

namespace am::checkpoint {
namespace {

namespace fs = std::filesystem;

const fs::path kDcpData = fs::path(test::kDataFolder) / "dcp";

at::Tensor expected_tensor(const Json& json) {
  const auto dtype = tensor::parse_dtype(json["dtype"].get<std::string>());
  const auto shape = json["shape"].get<Shape>();
  if (at::isComplexType(dtype)) {
    const auto parts = json["elements"].get<std::vector<double>>();
    Shape pairs = shape;
    pairs.push_back(2);
    return at::view_as_complex(at::tensor(parts, at::kDouble).view(pairs)).to(dtype);
  }
  if (at::isIntegralType(dtype, true)) {
    return at::tensor(json["elements"].get<std::vector<int64_t>>(), at::kLong)
        .view(shape)
        .to(dtype);
  }
  return at::tensor(json["elements"].get<std::vector<double>>(), at::kDouble).view(shape).to(dtype);
}

// Compares bytes, since not every dtype supports comparison.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 ||
          std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0);
}

// Returns the name under which a TensorSource lists a key of the saved nested state.
std::string name_of_key(const std::string& key) {
  return starts_with(key, "model.") ? key.substr(6) : key;
}

// A copy of a checkpoint folder that a test may corrupt.
struct SpoiltFolder {
  fs::path path = fs::temp_directory_path() / cat("am_dcp_test_", ::getpid());

  explicit SpoiltFolder(const fs::path& from) {
    fs::remove_all(path);
    fs::copy(from, path, fs::copy_options::recursive);
  }
  ~SpoiltFolder() { fs::remove_all(path); }
  SpoiltFolder(const SpoiltFolder&) = delete;
  SpoiltFolder& operator=(const SpoiltFolder&) = delete;

  // Replaces a text in a file by one of equal length.
  void replace(const std::string& file, const std::string& old, const std::string& with) const {
    std::string text = read_file(path / file);
    const size_t at = text.find(old);
    REQUIRE(at != std::string::npos);
    text.replace(at, old.size(), with);
    write_file_atomically(path / file, text);
  }
  std::string problem() const {
    try {
      const auto source = stored::open_dcp_source(path);
      for (const auto* list : {&source->tensors(), &source->optimizer_tensors()}) {
        for (const auto& each : *list) checkpoint::read_all(*source, each.name);
      }
    } catch (const Error& error) {
      const std::string what = error.what();
      return starts_with(what, path.string()) ? what.substr(path.string().size()) : what;
    }
    return "none";
  }
};

}  // namespace

TEST_CASE("folders that PyTorch saved are read to the bit") {
  for (const char* name : {"fsdp2", "fsdp4", "grid", "hsdp", "values"}) {
    const fs::path folder = kDcpData / name;
    const Json expected = Json::parse(read_file(folder / "expected.json"));
    const auto source = frameworks::open_tensor_source(folder);
    CHECK(source->format() == "dcp");
    size_t read = 0;
    for (const auto& [key, value] : expected.items()) {
      INFO(name << ": " << key);
      const std::string tensor = name_of_key(key);
      const stored::StoredTensor* stored = source->find(tensor);
      REQUIRE(stored != nullptr);
      CHECK(same_bits(checkpoint::read_all(*source, tensor), expected_tensor(value)));
      ++read;
    }
    CHECK(read == source->tensors().size() + source->optimizer_tensors().size());
  }
}

TEST_CASE("names of a nested state, and the ranks that hold its parts") {
  const auto source = stored::open_dcp_source(kDcpData / "fsdp4");
  std::vector<std::string> names;
  for (const auto& each : source->tensors()) names.push_back(each.name);
  CHECK(names ==
        std::vector<std::string>{"down.weight", "low.weight", "scale", "up.bias", "up.weight"});
  CHECK(source->find("optim.state.up.weight.exp_avg") != nullptr);
  const stored::StoredTensor& up = *source->find("up.weight");  // 13 rows on 4 ranks: 4, 4, 4, 1
  REQUIRE(up.shards.size() == 4);
  CHECK(up.shards[3].rank == 3);
  CHECK(up.shards[3].box == mesh::Box{{12, 0}, {1, 8}});
  CHECK(source->find("scale")->shards.size() == 3);
}

TEST_CASE("any box of a tensor in several files") {
  const auto source = stored::open_dcp_source(kDcpData / "grid");
  for (const char* name : {"up.weight", "down.weight"}) {
    const at::Tensor whole = checkpoint::read_all(*source, name);
    const auto shape = source->find(name)->shape;
    for (int64_t row = 0; row < shape[0]; row += 3) {
      for (int64_t column = 0; column < shape[1]; ++column) {
        const mesh::Box box{{row, column},
                            {std::min<int64_t>(3, shape[0] - row), shape[1] - column}};
        at::Tensor out = at::empty(box.shape, at::kFloat);
        checkpoint::read(*source, name, box, out);
        CHECK(at::equal(out, tensor::view_box(whole, {0, 0}, box)));
      }
    }
  }
}

TEST_CASE("what a damaged folder says") {
  {
    const SpoiltFolder folder(kDcpData / "fsdp2");
    fs::remove(folder.path / "__1_0.distcp");
    CHECK(folder.problem().find("__1_0.distcp: ") == 1);
  }
  {
    const SpoiltFolder folder(kDcpData / "fsdp2");
    fs::resize_file(folder.path / "__0_0.distcp", 5000);
    CHECK(folder.problem().find("the file has only 5000 bytes") != std::string::npos);
  }
  {
    const SpoiltFolder folder(kDcpData / "fsdp2");
    folder.replace(".metadata", "__1_0.distcp", "../../passwd");
    CHECK(folder.problem().find("is not the name of a file in this folder") != std::string::npos);
  }
  {
    const SpoiltFolder folder(kDcpData / "fsdp2");
    // The changed pickle names a class of another module (opcode STACK_GLOBAL). The names of both
    // modules have equal lengths.
    folder.replace(".metadata", "torch.distributed.checkpoint.filesystem",
                   "subprocess.............................");
    CHECK(folder.problem().find("unknown storage class subprocess") != std::string::npos);
  }
  {
    const SpoiltFolder folder(kDcpData / "fsdp2");
    // The changed data file names a storage class with an unknown dtype.
    folder.replace("__0_0.distcp", "FloatStorage", "DoubleStorag");
    CHECK(folder.problem().find("unknown dtype") != std::string::npos);
  }
}

}  // namespace am::checkpoint
