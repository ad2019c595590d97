// Tests model names: built-in configs, and models in the cache of the Hugging Face Hub.
#include "am/config/model_names.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "am/config/plan.h"
#include "support/temporary_folder.h"

namespace am::config {
namespace {

namespace fs = std::filesystem;

// Sets an environment variable while this object exists.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

void make_config(const fs::path& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << "{}";
}

}  // namespace

TEST_CASE("built-in models are found beside the program") {
  const auto names = builtin_models();
  CHECK(std::find(names.begin(), names.end(), "llama-3.1-8b") != names.end());
  const auto found = find_model("llama-3.1-8b");
  REQUIRE(found);
  CHECK(fs::exists(*found / "config.json"));
  CHECK(!find_model("llama-3.1"));
  CHECK(!find_model("../llama-3.1-8b"));
  CHECK(!find_model(""));
  CHECK(model_path("llama-3.1-8b") == *found);
  CHECK(model_path("no-such-model") == "no-such-model");
}

TEST_CASE("the cache of the hub is searched without the network") {
  const TemporaryFolder temp;
  const Variable cache("HF_HUB_CACHE", temp.path().string());
  const fs::path model = temp / "models--org--small";
  CHECK(!find_model("org/small"));
  make_config(model / "snapshots" / "aaa");
  CHECK(find_model("org/small") == model / "snapshots" / "aaa");
  make_config(model / "snapshots" / "bbb");
  fs::create_directories(model / "refs");
  std::ofstream(model / "refs" / "main") << "bbb\n";
  CHECK(find_model("org/small") == model / "snapshots" / "bbb");
  CHECK(!find_model("org/small/more"));
  CHECK(!find_model("org/.."));
}

TEST_CASE("a plan's model may be a name, and a file of this name comes first") {
  const TemporaryFolder temp;
  Diagnostics found;
  const std::string text = "[model]\npath = \"llama-3.1-8b\"\n[mesh]\nworld_size = 1\n";
  const auto plan = parse_plan(text, (temp / "plan.toml").string(), {}, found);
  REQUIRE(plan);
  CHECK(plan->model.path == find_model("llama-3.1-8b")->string());
  make_config(temp / "llama-3.1-8b");
  const auto own = parse_plan(text, (temp / "plan.toml").string(), {}, found);
  REQUIRE(own);
  CHECK(own->model.path == "llama-3.1-8b");
}

}  // namespace am::config
