// Tests the kinds of am-repl's argument TARGET, and sessions on a checkpoint of am-run.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "am/base/file.h"
#include "am/checkpoint/checkpoint.h"
#include "am/values/open_target.h"
#include "support/folders.h"
#include "support/temporary_folder.h"
#include "values/session_fixture.h"

using namespace am;
using namespace am::inspect;
using namespace am::values;
using namespace am::values::test;

namespace fs = std::filesystem;

namespace {

// Writes the fixture's weights as a checkpoint of step `step`, in the form in which two FSDP2 ranks
// of am-run write it.
void write_checkpoint(const fs::path& folder, int64_t step) {
  Diagnostics found;
  const auto plan =
      config::parse_plan(plan_text("llama", "dp_size = 2", kPlainFsdp2), "test.toml", {}, found);
  REQUIRE(plan);
  const auto config = model::load_config(fixture("llama"), found);
  const auto sizes = layout::resolve_mesh(*plan, 2, found);
  REQUIRE((config && sizes));
  const auto layout = layout::build_layout(*plan, *config, *sizes, found);
  REQUIRE(layout);
  runtime::run_ranks(2, [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, layout->mesh);
    auto model = parallel::ParallelModel::build(*plan, *config, *layout, mesh);
    checkpoint::load_or_initialize(*model, *plan);
    checkpoint::save_checkpoint(folder, {{step, 2, *sizes, "llama"}, config::to_toml(*plan)},
                                *model);
  });
}

std::string error_of(const fs::path& path) {
  try {
    find_target(path);
  } catch (const Error& error) {
    CHECK(error.exit_status() == 2);
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a checkpoint of two ranks shows who wrote what", "[inspect]") {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "step-7";
  write_checkpoint(folder, 7);
  REQUIRE(find_target(folder).kind == TargetKind::kWeights);
  Session session = stored_session(folder.string());
  CHECK(session.view().title() == "llama step-7 [dp_shard 2]");
  const Json shown = execute(session, "show lm_head.weight").result.json;
  CHECK(shown["placements"] == Json{{"dp_shard_cp", "Shard(0)"}});
  REQUIRE(shown["shards"].size() == 2);
  CHECK(shown["shards"][1] == Json{{"rank", 1}, {"offset", {49, 0}}, {"shape", {48, 32}}});
  CHECK(execute(session, "info").result.json["step"] == 7);
  CHECK(execute(session, "mesh").result.json["groups"]["dp"] == Json{{0, 1}});

  Session original = stored_session(fixture("llama") + "/model.safetensors");
  CHECK(execute(session, "stats").result.json == execute(original, "stats").result.json);
  CHECK(execute(session, "loss ABCD").result.json == execute(original, "loss ABCD").result.json);

  const Json change = execute(session, "unshard lm_head.weight").result.json;
  CHECK(change["boxes_before"][0]["shape"] == Json{49, 32});
  CHECK(change["boxes_after"][0]["shape"] == Json{97, 32});
  CHECK(change["boxes_after"][1]["shape"] == Json{48, 32});
  CHECK(execute(session, "stats").result.json == execute(original, "stats").result.json);
}

TEST_CASE("a plugin that a checkpoint's plan names is never loaded", "[inspect]") {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "step-7";
  write_checkpoint(folder, 7);
  fs::copy_file(am::cat(am::test::kPluginFolder, "/leaves_a_file.so"), folder / "libmine.so");
  std::string text = read_file(folder / "plan.toml");
  const std::string written = "tp_plan = \"auto\"";
  REQUIRE(text.find(written) != std::string::npos);
  text.replace(text.find(written), written.size(), "tp_plan = \"./libmine.so:feed_forward\"");
  write_file_atomically(folder / "plan.toml", text);
  const fs::path mark = temporary.path() / "loaded";
  ::setenv("AM_TEST_MARK", mark.c_str(), 1);

  Diagnostics found;
  const auto opened =
      open_target(find_target(folder), {.plugins = config::Plugins::kAllowed}, found);
  REQUIRE(opened != nullptr);
  ::unsetenv("AM_TEST_MARK");
  CHECK_FALSE(fs::exists(mark));
  CHECK(found.empty());
  const Json info = opened->run("info").result.json;
  CHECK_THAT(info.at("note").get<std::string>(),
             Catch::Contains("./libmine.so:feed_forward") &&
                 Catch::Contains("loaded only if you allow it"));
  const Json shown = opened->run("show lm_head.weight").result.json;
  CHECK(shown["shards"].size() == 2);
}

TEST_CASE("a run folder stands for its newest whole checkpoint", "[inspect]") {
  const TemporaryFolder temporary;
  const fs::path checkpoints = temporary.path() / "checkpoints";
  fs::create_directories(checkpoints / "step-12");
  CHECK_THAT(error_of(temporary.path()), Catch::Contains("no checkpoint is complete"));
  fs::create_directories(checkpoints / "step-9.tmp");
  write_checkpoint(checkpoints / "step-2", 2);
  write_checkpoint(checkpoints / "step-10", 10);
  const Target target = find_target(temporary.path());
  CHECK(target.path == checkpoints / "step-10");
  CHECK_THAT(target.note, Catch::Contains("step-10") && Catch::Contains("skipped: ") &&
                              Catch::Contains("step-12"));
  CHECK(find_target(checkpoints).path == checkpoints / "step-10");
  fs::remove(checkpoints / "step-10" / "__1_0.distcp");
  CHECK(find_target(temporary.path()).path == checkpoints / "step-2");
}

TEST_CASE("targets that are nothing say what was looked for", "[inspect]") {
  const TemporaryFolder temporary;
  CHECK_THAT(error_of(temporary.path() / "nothing"), Catch::Contains("no such file"));
  CHECK_THAT(error_of(temporary.path()), Catch::Contains("step-N"));
  std::ofstream(temporary.path() / "notes.txt") << "hello";
  CHECK_THAT(error_of(temporary.path() / "notes.txt"),
             Catch::Contains("neither a plan nor weights"));
  CHECK(find_target(fixture("llama")).note.empty());
  CHECK(find_target(fixture("llama") + "/model.safetensors").kind == TargetKind::kWeights);
}

TEST_CASE("a wrong plan gives diagnostics and no session", "[inspect]") {
  const TemporaryFolder temporary;
  const fs::path file = temporary.path() / "plan.toml";
  std::ofstream(file) << plan_text("llama", "tp_size = 3\nworld_size = 3", kPlainFsdp2);
  Diagnostics found;
  CHECK(open_target(find_target(file), {}, found) == nullptr);
  CHECK_FALSE(found.ok());
}

TEST_CASE("a plan of one rank runs in this process", "[inspect]") {
  const TemporaryFolder temporary;
  const fs::path file = temporary.path() / "plan.toml";
  std::ofstream(file) << plan_text("llama", "world_size = 1", kPlainFsdp2);
  Diagnostics found;
  const auto interpreter = open_target(find_target(file), {}, found);
  REQUIRE(interpreter);
  CHECK(interpreter->facts().title == "llama plan.toml");
  CHECK(interpreter->run("loss ABCD").ok());
  CHECK_FALSE(interpreter->run("loss").ok());
}
