// Tests `verify`, which accepts complete files and reports each kind of damage, and `same`, which
// compares stored checksums where both sides have them, and values elsewhere.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "am/checkpoint/checkpoint.h"
#include "am/run_folder/shard_index.h"
#include "support/folders.h"
#include "support/plans.h"
#include "support/temporary_folder.h"
#include "values/session_fixture.h"

namespace am::values::test {

using namespace inspect;

namespace {

namespace fs = std::filesystem;

// Saves a checkpoint in the form that FSDP2 ranks write.
void save_of(int64_t ranks, const fs::path& folder, const std::string& weights = "auto") {
  const config::Plan plan =
      am::test::parse(cat("[model]\npath = \"hf/llama\"\nweights = \"", weights,
                          "\"\nseed = 7\n[train]\nseq_len = 16\n[mesh]\nworld_size = ", ranks,
                          "\n[strategy]\nname = \"fsdp2\"\n", am::test::kFullPrecision));
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    am::test::RankModel rank(plan, world);
    checkpoint::load_or_initialize(*rank.model, plan);
    run_folder::CheckpointInfo info;
    info.step = 3;
    info.world_size = world.size();
    info.mesh = rank.layout.mesh.sizes();
    info.model_type = rank.config.model_type;
    checkpoint::save_checkpoint(folder, {info, config::to_toml(plan)}, *rank.model);
  });
}

void flip(const fs::path& path, uint64_t position) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(position));
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(position));
  file.put(byte);
}

Json problems_of(Session& session) {
  const Outcome outcome = execute(session, "verify");
  REQUIRE_FALSE(outcome.error);
  const Json problems = outcome.result.json["problems"];
  CHECK(to_json(outcome)["ok"] == problems.empty());
  CHECK(outcome.ok() == problems.empty());
  return problems;
}

}  // namespace

TEST_CASE("same compares checksums where both sides have them, and values elsewhere", "[inspect]") {
  const TemporaryFolder temporary;
  const fs::path first = temporary / "step-3", again = temporary / "again/step-3",
                 other = temporary / "other/step-3";
  save_of(2, first);
  save_of(2, again);
  save_of(2, other, "none");
  // `same` compares only the stored checksums and does not read the values, which have changed.
  flip(again / "__1_0.distcp", 40'960);
  Session session = stored_session(first.string());
  const auto answer = [&](const fs::path& target, bool same) {
    const Outcome outcome = execute(session, cat("same ", target.string()));
    REQUIRE_FALSE(outcome.error);
    CHECK(outcome.ok() == same);
    CHECK(outcome.result.json["same"] == same);
    return outcome.result;
  };
  CHECK(answer(again, true).text == "21 of 21 tensors are the same, by their checksums\n");
  const Json differs = answer(other, false).json["tensors"];
  CHECK(differs[0] ==
        Json{{"name", "lm_head.weight"}, {"status", "different"}, {"by", "checksums"}});

  execute(session, cat("export ", (temporary / "hub").string()));
  CHECK(answer(temporary / "hub", true).text == "21 of 21 tensors are the same\n");
  const fs::path file = temporary / "hub/model.safetensors";
  flip(file, fs::file_size(file) - 1);
  const Json changed = answer(temporary / "hub", false).json["tensors"];
  const auto is_different = [](const Json& each) { return each["status"] == "different"; };
  CHECK(std::count_if(changed.begin(), changed.end(), is_different) == 1);
  execute(session, cat("export ", (temporary / "narrow").string(), " --dtype bfloat16"));
  CHECK(answer(temporary / "narrow", false).json["tensors"][0]["status"] == "dtype");
}

TEST_CASE("verify finds the bytes of an am-run checkpoint that have changed", "[inspect]") {
  const TemporaryFolder temporary;
  const fs::path folder = temporary / "step-3";
  save_of(2, folder);
  Session session = stored_session(folder.string());
  CHECK(problems_of(session).empty());
  CHECK_THAT(execute(session, "verify").result.text, Catch::Contains("21 tensors in 2 files"));

  const auto index = run_folder::read_shard_index(folder / run_folder::kIndexFile);
  const auto& tensor = index.tensors.front();
  const auto& box = tensor.boxes.back();
  const fs::path file = folder / index.files[box.file].name;
  CHECK(execute(session, "stats").ok());  // the first read verifies the checksums
  flip(file, box.position);
  Json problems = problems_of(session);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0]["where"] == tensor.name);
  CHECK_THAT(problems[0]["what"].get<std::string>(),
             Catch::Contains("the checksum does not match"));
  flip(file, box.position);
  CHECK(problems_of(session).empty());

  flip(file, box.slice_offset);  // a byte of the archive that contains the values
  problems = problems_of(session);
  REQUIRE(problems.size() == 1);
  CHECK_THAT(problems[0]["where"].get<std::string>(), Catch::Contains(tensor.name));
  flip(file, box.slice_offset);

  fs::resize_file(file, index.files[box.file].bytes - 1);
  problems = problems_of(session);
  REQUIRE_FALSE(problems.empty());
  CHECK(problems[0]["where"] == file.filename().string());
}

TEST_CASE("verify names the damaged files of a folder that another save has replaced",
          "[inspect]") {
  const TemporaryFolder temporary;
  const fs::path folder = temporary / "step-3";
  save_of(2, folder);
  Session session = stored_session(folder.string());
  CHECK(problems_of(session).empty());
  fs::remove_all(folder);
  save_of(4, folder);
  const std::string last = run_folder::data_file_name(3);
  fs::resize_file(folder / last, 100);
  CHECK(problems_of(session)[0]["where"] == last);
}

TEST_CASE("verify reads every slice of a folder of torch.distributed.checkpoint", "[inspect]") {
  const TemporaryFolder temporary;
  const fs::path folder = temporary / "fsdp4";
  fs::copy(fs::path(am::test::kDataFolder) / "dcp" / "fsdp4", folder, fs::copy_options::recursive);
  {
    Session session = stored_session(folder.string());
    CHECK(problems_of(session).empty());
  }
  flip(folder / "__2_0.distcp", 0);
  {
    Session session = stored_session(folder.string());
    CHECK(problems_of(session).size() == 1);
  }
  fs::remove(folder / "__2_0.distcp");
  Session session = stored_session(folder.string());
  const Json problems = problems_of(session);
  REQUIRE_FALSE(problems.empty());
  CHECK(problems[0] ==
        Json{{"what", "cannot read: No such file or directory"}, {"where", "__2_0.distcp"}});
  for (size_t i = 1; i < problems.size(); ++i) {
    const Json& problem = problems[i];
    CHECK_THAT(problem["what"].get<std::string>(), Catch::StartsWith("__2_0.distcp: "));
  }
}

TEST_CASE("verify of safetensors, of a plan, and stopped", "[inspect]") {
  const TemporaryFolder temporary;
  fs::copy(fixture("llama-sharded"), temporary / "llama", fs::copy_options::recursive);
  bool stop = false;
  SessionOptions options;
  options.interrupted = [&] { return stop; };
  Session session = stored_session((temporary / "llama").string(), options);
  CHECK(problems_of(session).empty());
  stop = true;
  CHECK_THAT(error_of(session, "verify"), Catch::Contains("interrupted"));
  const auto outcomes =
      run_on_ranks(2, plan_text("llama", "world_size = 2", kPlainFsdp2), {"verify"});
  REQUIRE(outcomes.front().error);
  CHECK_THAT(outcomes.front().error->message, Catch::Contains("checkpoint on disk"));
}

}  // namespace am::values::test
