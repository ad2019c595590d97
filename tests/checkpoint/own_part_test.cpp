// Tests that a rank reads only its own boxes of a checkpoint, and opens only the files that contain
// these boxes.
#include "am/checkpoint/own_part.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/run_folder/data_files.h"
#include "am/stored/automesh_source.h"
#include "support/plans.h"
#include "support/temporary_folder.h"

namespace am::checkpoint {
namespace {

namespace fs = std::filesystem;

config::Plan plan_of(int64_t ranks, const std::string& weights) {
  return test::parse(cat("[model]\npath = \"hf/llama\"\nseed = 7\nweights = \"", weights,
                         "\"\n[train]\nseq_len = 16\n[mesh]\nworld_size = ", ranks,
                         "\n[strategy]\nname = \"fsdp2\"\n", test::kFullPrecision));
}

void save(int64_t ranks, const fs::path& folder) {
  const config::Plan plan = plan_of(ranks, "auto");
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

using Files = std::set<std::string>;

Files files_of(std::initializer_list<int64_t> ranks) {
  Files files;
  for (const int64_t rank : ranks) files.insert(run_folder::data_file_name(rank));
  return files;
}

// Makes each rank read its part from a copy of the folder with only the data files `files[rank]`.
void read_parts(const fs::path& folder, const std::vector<Files>& files) {
  const TemporaryFolder copies;
  const auto original = frameworks::open_tensor_source(test::data_path("hf/llama"));
  runtime::run_ranks(static_cast<int64_t>(files.size()), [&](const runtime::World& world) {
    const fs::path copy = copies.path() / cat(world.rank());
    fs::copy(folder, copy);
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".distcp") && !files[static_cast<size_t>(world.rank())].contains(name)) {
        fs::remove(copy / name);
      }
    }
    test::RankModel rank(plan_of(world.size(), "none"), world);
    load(*rank.model, *open_own_part(copy, *rank.model));
    rank.model->for_each_owned(
        [&](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
          const at::Tensor wanted = at::empty_like(owned.value);
          read(*original, owned.name, owned.box, wanted);
          if (!at::equal(owned.value, wanted)) throw std::runtime_error(owned.name);
        });
  });
}

}  // namespace

TEST_CASE("a rank opens the files that hold its boxes alone, under any layout") {
  const TemporaryFolder temp;
  const fs::path folder = temp.path() / "step-3";
  save(4, folder);
  read_parts(folder, {files_of({0}), files_of({1}), files_of({2}), files_of({3})});
  // Two ranks read what four ranks saved. If 4 does not divide the number of rows, the second rank
  // may also need rows from the file of saved rank 1.
  read_parts(folder, {files_of({0, 1}), files_of({1, 2, 3})});
  // Without one of its files, the first rank cannot read its boxes.
  CHECK_THROWS_WITH(read_parts(folder, {files_of({0}), files_of({1, 2, 3})}),
                    Catch::Contains("__1_0.distcp: cannot read"));
}

TEST_CASE("a file is compared with its label and size when it is opened") {
  const TemporaryFolder temp;
  const fs::path folder = temp.path() / "step-3";
  save(2, folder);
  const fs::path file = folder / "__1_0.distcp";
  test::RankModel whole(plan_of(1, "none"), runtime::World::single());
  const auto source = open_own_part(folder, *whole.model);
  SECTION("it is another save's") {
    save(2, temp.path() / "other");
    fs::copy_file(temp.path() / "other/__1_0.distcp", file, fs::copy_options::overwrite_existing);
    CHECK_THROWS_WITH(load(*whole.model, *source),
                      Catch::Contains("__1_0.distcp: it does not match"));
  }
  SECTION("it is another rank's") {
    fs::copy_file(folder / "__0_0.distcp", file, fs::copy_options::overwrite_existing);
    CHECK_THROWS_WITH(load(*whole.model, *source),
                      Catch::Contains("rank 0") && Catch::Contains("rank 1"));
  }
  SECTION("it was cut off") {
    fs::resize_file(file, fs::file_size(file) - 5);
    CHECK_THROWS_WITH(load(*whole.model, *source), Catch::Contains("according to index.json"));
  }
  SECTION("it is whole") { CHECK_NOTHROW(load(*whole.model, *source)); }
}

TEST_CASE("what a rank wants has to be there once, and nothing else is read") {
  const TemporaryFolder temp;
  const fs::path folder = temp.path() / "step-3";
  save(4, folder);
  const std::string name = "model.norm.weight";
  const auto own = [&](const std::string& tensor) -> std::optional<std::vector<mesh::Box>> {
    return tensor == name ? std::vector<mesh::Box>{{{0}, {8}}} : std::vector<mesh::Box>{};
  };
  const auto wanted_alone = stored::open_automesh_part(folder, own);
  CHECK(wanted_alone->find(name)->shards.size() == 1);
  CHECK(wanted_alone->find("lm_head.weight")->shards.empty());
  std::vector<float> values(32);
  const stored::Destination out{std::as_writable_bytes(std::span(values)).data(), {1}};
  CHECK_NOTHROW(wanted_alone->read(name, {{0}, {8}}, out));
  CHECK_THROWS_WITH(wanted_alone->read(name, {{0}, {9}}, out),
                    Catch::Contains("outside of the wanted boxes"));
  const fs::path file = folder / run_folder::kIndexFile;
  auto index = run_folder::read_shard_index(file);
  const auto norm = std::find_if(index.tensors.begin(), index.tensors.end(),
                                 [&](const auto& tensor) { return tensor.name == name; });
  auto& boxes = norm->boxes;
  SECTION("a part is nowhere") { boxes.erase(boxes.begin()); }
  SECTION("a part is there twice") { boxes.push_back(boxes.front()); }
  write_file_atomically(file, run_folder::to_json_text(index));
  CHECK_THROWS_WITH(stored::open_automesh_part(folder, own), Catch::Contains(name));
}

TEST_CASE("weights from a checkpoint that is not whole are refused on all ranks alike") {
  const TemporaryFolder temp;
  const fs::path folder = temp.path() / "step-3";
  save(4, folder);
  fs::remove(folder / "__3_0.distcp");
  std::mutex mutex;
  std::map<std::string, int> refusals;
  const config::Plan plan = plan_of(4, folder.string());
  runtime::run_ranks(4, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    try {
      load_or_initialize(*rank.model, plan);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      ++refusals[error.what()];
    }
  });
  REQUIRE(refusals.size() == 1);
  CHECK(refusals.begin()->second == 4);
  CHECK_THAT(refusals.begin()->first, Catch::Contains("__3_0.distcp: cannot read"));
}

}  // namespace am::checkpoint
