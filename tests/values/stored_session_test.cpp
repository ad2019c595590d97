#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
// Tests the basic commands of am-repl on stored weights.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "support/temporary_folder.h"
#include "values/session_fixture.h"

using namespace am;
using namespace am::inspect;
using namespace am::values;
using namespace am::values::test;

namespace {

Json json_of(Session& session, const std::string& input) {
  const Outcome outcome = execute(session, input);
  INFO(input << ": " << (outcome.error ? outcome.error->message : ""));
  REQUIRE(outcome.ok());
  return outcome.result.json;
}

at::Tensor weight(const std::string& name) {
  return checkpoint::read_all(*frameworks::open_tensor_source(fixture("llama") + kModel), name);
}

}  // namespace

TEST_CASE("ls lists names, shapes, dtypes and bytes", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  const Json all = json_of(session, "ls")["parameters"];
  CHECK(all.size() == 21);
  CHECK(all[0] == Json{{"name", "lm_head.weight"},
                       {"shape", {97, 32}},
                       {"dtype", "float32"},
                       {"bytes", 12416}});
  CHECK(json_of(session, "ls *.q_proj.weight")["parameters"].size() == 2);
  CHECK(json_of(session, "ls model.layers.1")["parameters"].size() == 9);
  CHECK(json_of(session, "ls norm")["parameters"].size() == 1);
  CHECK_THAT(error_of(session, "ls *.nothing"), Catch::Contains("no parameter matches"));
  CHECK_THAT(error_of(session, "ls model.layrs.1"), Catch::Contains("model.layers.1"));
}

TEST_CASE("show names the shards of a folder", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  const Json shown = json_of(session, "show model.norm.weight");
  CHECK(shown["shape"] == Json{32});
  CHECK(shown["bytes"] == 128);
  CHECK(shown["placements"].empty());
  CHECK(shown["shards"] == Json::array({{{"rank", 0}, {"offset", {0}}, {"shape", {32}}}}));
  CHECK_THAT(error_of(session, "show model.norm.wieght"), Catch::Contains("model.norm.weight"));
  CHECK_THAT(error_of(session, "show model.layers"), Catch::Contains("is a module"));
  CHECK_THAT(error_of(session, "show q_proj.weight"), Catch::Contains("2 parameters end in"));
  CHECK_THAT(error_of(session, "show"), Catch::Contains("needs NAMES"));
  CHECK_THAT(error_of(session, "show model.norm.weight a"),
             Catch::Contains("there is no parameter `a`"));
  CHECK_THAT(error_of(session, "tree a b"), Catch::Contains("does not take `b`"));
}

TEST_CASE("info counts elements", "[inspect]") {
  Session session = stored_session(fixture("llama-sharded"));
  const Json info = json_of(session, "info");
  int64_t elements = 0;
  const Json list = json_of(session, "ls");
  for (const Json& parameter : list["parameters"]) {
    elements += parameter["bytes"].get<int64_t>() / 4;
  }
  CHECK(info["parameters"] == elements);
  CHECK(info["model_type"] == "llama");
  CHECK(info["world_size"] == 1);
  CHECK(session.view().title() == "llama llama-sharded");
}

TEST_CASE("stats and print give the file's own values", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  const at::Tensor value = weight("model.embed_tokens.weight");
  const Json stats = json_of(session, "stats embed_tokens.weight")["stats"][0];
  CHECK(stats["numel"] == 97 * 32);
  CHECK(stats["mean"].get<double>() ==
        Approx(value.to(at::kDouble).mean().item<double>()).epsilon(1e-12));
  CHECK(stats["std"].get<double>() ==
        Approx(value.to(at::kDouble).std().item<double>()).epsilon(1e-12));
  CHECK(stats["max"].get<double>() == value.max().item<double>());
  CHECK(stats["nan"] == 0);

  SessionOptions options;
  options.for_programs = true;
  Session program = stored_session(fixture("llama") + kModel, options);
  const Json printed = json_of(program, "print model.embed_tokens.weight[1:3, :2]");
  CHECK(printed["shape"] == Json{2, 2});
  CHECK(printed["values"][1][0].get<double>() == value[2][0].item<double>());
  CHECK(json_of(program, "print model.embed_tokens.weight[-1, 5]")["values"] ==
        value[96][5].item<double>());
  CHECK(json_of(program, "print model.norm.weight[3:3]")["values"] == Json::array());
  CHECK_THAT(error_of(program, "print model.norm.weight[0, 0]"), Catch::Contains("2 indices"));
}

TEST_CASE("print leaves out the middle of large tensors", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  const std::string text = execute(session, "print lm_head.weight").result.text;
  CHECK_THAT(text, Catch::Contains("..."));
  CHECK_THAT(text, Catch::Contains("the middle is left out"));
  CHECK(text.size() < 1000);
}

TEST_CASE("hist counts every value once", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  const Json hist = json_of(session, "hist lm_head.weight --bins 7");
  CHECK(hist["edges"].size() == 8);
  int64_t total = 0;
  for (const Json& count : hist["counts"]) total += count.get<int64_t>();
  CHECK(total == 97 * 32);
  CHECK_THAT(error_of(session, "hist lm_head.weight --bins 0"), Catch::Contains("out of range"));
  CHECK_THAT(error_of(session, "hist lm_head.weight --bins x"), Catch::Contains("not an integer"));
  CHECK_THAT(error_of(session, "hist lm_head.weight --bin 3"), Catch::Contains("--bins"));
  CHECK_THAT(error_of(session, "hist lm_head.weight --bins"), Catch::Contains("needs a value"));
}

TEST_CASE("unshard assembles and reshard drops, twice is once", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  const Json first = json_of(session, "unshard model.layers.0");
  CHECK(first["parameters"].size() == 9);
  CHECK(first["before"][0]["unsharded_bytes"] == 0);
  const auto bytes = first["after"][0]["unsharded_bytes"].get<int64_t>();
  CHECK(bytes > 0);
  CHECK(json_of(session, "unshard model.layers.0")["after"][0]["unsharded_bytes"] == bytes);
  CHECK(json_of(session, "memory")["ranks"][0]["unsharded_bytes"] == bytes);
  CHECK(json_of(session, "stats model.layers.0.mlp.up_proj.weight")["stats"].size() == 1);
  CHECK(json_of(session, "reshard")["after"][0]["unsharded_bytes"] == 0);
  CHECK(json_of(session, "reshard")["parameters"].empty());
}

TEST_CASE("tree draws equal layers once", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  const Outcome outcome = execute(session, "tree");
  REQUIRE(outcome.ok());
  CHECK_THAT(outcome.result.text, Catch::Contains("0-1  (2 alike)"));
  CHECK(outcome.result.json["tree"]["parameters"] == json_of(session, "info")["parameters"]);
}

TEST_CASE("unknown commands and settings name the nearest", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  CHECK_THAT(error_of(session, "shwo model.norm.weight"), Catch::Contains("`show`"));
  CHECK_THAT(error_of(session, "set dtyp float32"), Catch::Contains("`dtype`"));
  CHECK_THAT(error_of(session, "set digits 99"), Catch::Contains("1 to 17"));
  CHECK_THAT(error_of(session, "set dtype float9"), Catch::Contains("float9"));
  CHECK_THAT(error_of(session, "help stat"), Catch::Contains("`stats`"));
  CHECK(json_of(session, "help")["commands"].size() == commands().size());
  CHECK(execute(session, "quit").result.quit);
  CHECK(execute(session, "exit").result.quit);
  CHECK(execute(session, "q").command == "quit");
  CHECK_FALSE(execute(session, "").result.quit);
  CHECK(json_of(session, "set")["settings"].size() == 3);
  json_of(session, "set digits 7");
  CHECK(json_of(session, "set")["settings"][2]["value"] == 7);
  CHECK_THAT(error_of(session, "set digits"), Catch::Contains("needs a value"));
}

TEST_CASE("weights without a config can be looked at but not run", "[inspect]") {
  const TemporaryFolder temporary;
  const auto& folder = temporary.path();
  std::filesystem::copy_file(fixture("llama") + kModel, folder / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  Session session = stored_session(folder.string());
  CHECK(json_of(session, "ls")["parameters"].size() == 21);
  CHECK_THAT(error_of(session, "loss ABCD"), Catch::Contains("no config.json"));
}

TEST_CASE("export writes a folder that opens again", "[inspect]") {
  const TemporaryFolder temporary;
  const auto folder = temporary / "export";
  Session session = stored_session(fixture("llama-sharded"));
  const Json exported = json_of(session, "export " + folder.string() + " --dtype bfloat16");
  CHECK(exported["files"].size() >= 2);
  CHECK(exported["bytes"].get<int64_t>() > 0);
  Session again = stored_session(folder.string());
  CHECK(json_of(again, "info")["dtype"] == "bfloat16");
  CHECK_THAT(error_of(session, "export " + folder.string()),
             Catch::Contains(folder.filename().string()));
  CHECK_THAT(error_of(session, "export x --format gguf"), Catch::Contains("unknown format"));
  CHECK_THAT(error_of(session, "export x --optimizer"), Catch::Contains("--format dcp"));
}
