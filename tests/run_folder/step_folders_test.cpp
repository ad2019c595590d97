// Tests step folders: which are complete, and how they are replaced, restored and removed.
#include "am/run_folder/step_folders.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/run_folder/shard_index.h"
#include "support/temporary_folder.h"

namespace am::run_folder {
namespace {

namespace fs = std::filesystem;

// Writes a step folder of two ranks; each rank stores one value.
void write_step(const fs::path& folder, const std::vector<JobStep>& lineage,
                const std::string& save_id = "save-1", std::optional<double> loss = {}) {
  fs::create_directories(folder);
  ShardIndex index;
  index.save_id = save_id;
  IndexedTensor tensor{"w", "float32", {2}, {}};
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::string label = data_file_label(save_id, rank);
    write_file_atomically(folder / data_file_name(rank), label + "abcd");
    index.files.push_back({data_file_name(rank), label.size() + 4});
    tensor.boxes.push_back({static_cast<uint32_t>(rank), label.size(), 0, 4, {{rank}, {1}}, {0}});
  }
  index.tensors.push_back(tensor);
  write_file_atomically(folder / kIndexFile, to_json_text(index));
  CheckpointInfo info;
  info.step = checkpoint_step(folder.stem().string()).value_or(0);
  info.world_size = 2;
  info.mesh.dp_shard = 2;
  info.model_type = "llama";
  info.save_id = save_id;
  info.lineage = lineage;
  if (loss) info.validated = {loss, *loss, 0};
  write_file_atomically(folder / kInfoFile, to_json_text(info));
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

const std::vector<JobStep> kJobA = {{"a", 0}};

}  // namespace

TEST_CASE("the newest checkpoint that is whole is found, and what is newer is named") {
  const TemporaryFolder folder;
  CHECK_FALSE(newest_complete(folder / "missing").found);
  for (const int64_t step : {10, 20, 30}) write_step(folder / cat("step-", step), kJobA);
  CHECK(newest_complete(folder.path()).found->step == 30);
  const fs::path newest = folder / "step-30";
  std::string reason;
  SECTION("checkpoint.json is missing") {
    fs::remove(newest / kInfoFile);
    reason = "checkpoint.json: cannot read";
  }
  SECTION("checkpoint.json is cut off") {
    fs::resize_file(newest / kInfoFile, 20);
    reason = "not an am-run checkpoint";
  }
  SECTION("a rank's file is missing") {
    fs::remove(newest / "__1_0.distcp");
    reason = "__1_0.distcp";
  }
  SECTION("a rank's file is cut off") {
    const fs::path file = newest / "__1_0.distcp";
    fs::resize_file(file, fs::file_size(file) - 1);
    reason = "__1_0.distcp";
  }
  SECTION("a rank's file is another save's") {
    write_step(folder / "other/step-30", kJobA, "save-2");
    fs::copy_file(folder / "other/step-30/__1_0.distcp", newest / "__1_0.distcp",
                  fs::copy_options::overwrite_existing);
    reason =
        "it does not match checkpoint.json in the same folder: their labels are "
        "automesh-checkpoint save-2";
  }
  SECTION("the folder is empty") {
    fs::remove_all(newest);
    fs::create_directory(newest);
    reason = "checkpoint.json: cannot read";
  }
  const NewestCheckpoint found = newest_complete(folder.path());
  CHECK(found.found->step == 20);
  REQUIRE(found.skipped.size() == 1);
  CHECK_THAT(found.skipped[0], Catch::StartsWith("step-30 is incomplete: "));
  CHECK_THAT(found.skipped[0], Catch::Contains(reason));
}

TEST_CASE("a checkpoint need not say how it came to be") {
  const TemporaryFolder folder;
  write_step(folder / "step-3", {}, "");
  CHECK_FALSE(why_incomplete(folder / "step-3"));
  const CheckpointInfo info = read_checkpoint_info(folder / "step-3");
  CHECK(info.lineage.empty());
  CHECK_FALSE(info.samples);
  CHECK(info.facts.is_null());
}

TEST_CASE("checkpoint.json keeps what is put into it") {
  CheckpointInfo info;
  info.step = 7;
  info.model_type = "llama";
  info.save_id = "1234";
  info.lineage = {{"a", 0}, {"b", 5}};
  info.samples = 56;
  info.facts = {{"train.seed", 3}, {"optimizer.lr", 1e-3}, {"data.path", {"x.bin"}}};
  const CheckpointInfo read = parse_checkpoint_info(to_json_text(info), "checkpoint.json");
  CHECK(read.save_id == info.save_id);
  CHECK((read.lineage == info.lineage));
  CHECK(read.samples == info.samples);
  CHECK(read.facts == info.facts);
  info.samples = -1;
  CHECK_THROWS_AS(parse_checkpoint_info(to_json_text(info), "checkpoint.json"), Error);
}

TEST_CASE("a job's own checkpoints are told from those of others") {
  const TemporaryFolder folder;
  CHECK_FALSE(newest_of_job(folder / "missing", "b"));
  write_step(folder / "step-10", kJobA);
  write_step(folder / "step-300", kJobA);
  CHECK_FALSE(newest_of_job(folder.path(), "b"));
  write_step(folder / "step-20", {{"a", 0}, {"b", 10}});
  CHECK(newest_of_job(folder.path(), "b") == 20);
  write_step(folder / "step-30", {{"a", 0}, {"b", 10}});
  fs::remove(folder / "step-30/__0_0.distcp");
  CHECK(newest_of_job(folder.path(), "b") == 20);
}

TEST_CASE("a finished folder takes the place of another one") {
  const TemporaryFolder folder;
  write_step(folder / "step-5.tmp", kJobA, "new");
  SECTION("there is none") {}
  SECTION("one is there") { write_step(folder / "step-5", kJobA, "old"); }
  publish(folder / "step-5.tmp", folder / "step-5");
  CHECK(names_in(folder.path()) == std::set<std::string>{"step-5"});
  CHECK(read_checkpoint_info(folder / "step-5").save_id == "new");
}

TEST_CASE("what a killed job had begun is ended") {
  const TemporaryFolder folder;
  write_step(folder / "step-4", kJobA);
  write_step(folder / "step-4.old", kJobA);  // the new step-4 is complete
  write_step(folder / "step-6.old", kJobA);  // the job was killed between two renames
  write_step(folder / "step-6.tmp", kJobA);
  write_step(folder / "step-9.tmp", kJobA);      // partly written
  write_step(folder / "step-2.dropped", kJobA);  // partly deleted
  write_step(folder / "step-8.superseded", kJobA);
  fs::create_directory(folder / "mine.tmp");
  const auto done = clean_up(folder.path());
  CHECK(names_in(folder.path()) ==
        std::set<std::string>{"step-4", "step-6", "step-8.superseded", "mine.tmp"});
  CHECK_FALSE(why_incomplete(folder / "step-6"));
  CHECK_THAT(join(done, "\n"), Catch::Contains("restored step-6 from step-6.old") &&
                                   Catch::Contains("removed step-9.tmp") &&
                                   Catch::Contains("removed step-2.dropped"));
  CHECK(clean_up(folder.path()).empty());
  CHECK(clean_up(folder / "missing").empty());
}

TEST_CASE("what lies beyond a step is set aside under a name of its own") {
  const TemporaryFolder folder;
  for (int time = 0; time < 2; ++time) {
    for (const int64_t step : {10, 20, 30}) write_step(folder / cat("step-", step), kJobA);
    CHECK(set_aside(folder.path(), 10).size() == 2);
  }
  CHECK(names_in(folder.path()) ==
        std::set<std::string>{"step-10", "step-20.superseded", "step-20.superseded.2",
                              "step-30.superseded", "step-30.superseded.2"});
  CHECK(newest_complete(folder.path()).found->step == 10);
}

TEST_CASE("keep counts and deletes what lies on the job's own way alone") {
  const TemporaryFolder folder;
  const std::vector<JobStep> own = {{"a", 0}, {"b", 20}};
  write_step(folder / "step-10", kJobA);
  write_step(folder / "step-20", kJobA);
  write_step(folder / "step-25", kJobA);  // after the step from which b resumed
  write_step(folder / "step-5", {{"stranger", 0}});
  write_step(folder / "step-6", {}, "");    // written by an older am-run
  fs::create_directory(folder / "step-7");  // an empty folder
  const std::set<std::string> strangers = {"step-25", "step-5", "step-6", "step-7"};
  const auto left = [&] {
    std::set<std::string> names = names_in(folder.path());
    for (const std::string& name : strangers) CHECK(names.erase(name) == 1);
    return names;
  };
  drop_old(folder.path(), {}, own);
  CHECK(left() == std::set<std::string>{"step-10", "step-20"});
  write_step(folder / "step-30", own);
  drop_old(folder.path(), {.newest = 2}, own);
  CHECK(left() == std::set<std::string>{"step-20", "step-30"});  // job b resumed from step-20
  write_step(folder / "step-40", own);
  drop_old(folder.path(), {.newest = 2}, own);
  CHECK(left() == std::set<std::string>{"step-30", "step-40"});
}

TEST_CASE("checkpoints are kept by their steps and by their validation losses") {
  const TemporaryFolder folder;
  const fs::path checkpoints = folder / "checkpoints";
  const std::vector<std::optional<double>> losses = {5.0, 2.0, std::nullopt, 1.0, 3.0, 4.0};
  for (size_t i = 0; i < losses.size(); ++i) {
    write_step(checkpoints / cat("step-", 10 * (i + 1)), kJobA, "save-1", losses[i]);
  }
  drop_old(checkpoints, {.newest = 1, .every = 30, .best = 2}, kJobA);
  CHECK(names_in(checkpoints) == std::set<std::string>{"step-20", "step-30", "step-40", "step-60"});
  const RunFolder run(folder.path());
  const HeldFolder held(folder.path());
  link_checkpoints(run, held, checkpoints, kJobA);
  CHECK(fs::read_symlink(folder / "latest") == "checkpoints/step-60");
  CHECK(fs::read_symlink(folder / "best") == "checkpoints/step-40");
  CHECK(read_checkpoint_info(folder / "best").step == 40);
  write_step(checkpoints / "step-70", kJobA, "save-1", 0.5);
  link_checkpoints(run, held, checkpoints, kJobA);
  CHECK(fs::read_symlink(folder / "best") == "checkpoints/step-70");
  SECTION("a file of this name stays") {
    fs::remove(folder / "latest");
    write_file_atomically(folder / "latest", "mine");
    link_checkpoints(run, held, checkpoints, kJobA);
    CHECK(read_file(folder / "latest") == "mine");
  }
}

}  // namespace am::run_folder
