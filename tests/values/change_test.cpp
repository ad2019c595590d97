#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
// Tests the commands that report dead parameters (`dead`), optimizer states (`optim`, `top`),
// changes between checkpoints (`drift`) and locations of shards (`where`). Their numbers are
// compared with ATen's.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "support/folders.h"
#include "support/temporary_folder.h"
#include "values/changed_file.h"
#include "values/session_fixture.h"

namespace am::values::test {

using namespace inspect;

namespace {

const std::string kDcp = std::string(am::test::kDataFolder) + "/dcp/fsdp4";

at::Tensor stored_double(const std::string& name) {
  return checkpoint::read_all(*frameworks::open_tensor_source(kDcp), name).to(at::kDouble);
}

}  // namespace

TEST_CASE("dead finds rows of zeros and columns of one value", "[inspect]") {
  const TemporaryFolder temporary;
  const auto change = [](Tensors& values) {
    values["lm_head.weight"][5].zero_();
    values["lm_head.weight"][90].zero_();
    values["model.layers.0.mlp.up_proj.weight"].select(1, 30).fill_(0.25);
    values["model.layers.0.mlp.down_proj.weight"].select(1, 2).fill_(NAN);
    values["model.layers.1.mlp.up_proj.weight"][3].zero_();
    values["model.layers.1.mlp.up_proj.weight"][3][7] = NAN;
  };
  write_changed(temporary / "a.safetensors", change);
  Session session = stored_session((temporary / "a.safetensors").string());
  const Json found = json_answer(session, "dead");
  CHECK(found["looked_at"] == 16);
  const Json expected = Json::array({{{"name", "lm_head.weight"},
                                      {"shape", {97, 32}},
                                      {"zero_rows", 2},
                                      {"first_zero_rows", {5, 90}},
                                      {"constant_columns", 0},
                                      {"first_constant_columns", Json::array()}},
                                     {{"name", "model.layers.0.mlp.up_proj.weight"},
                                      {"shape", {48, 32}},
                                      {"zero_rows", 0},
                                      {"first_zero_rows", Json::array()},
                                      {"constant_columns", 1},
                                      {"first_constant_columns", {30}}}});
  CHECK(found["parameters"] == expected);
  CHECK(json_answer(session, "dead lm_head.weight[6:]")["parameters"][0]["zero_rows"] == 1);
  CHECK(json_answer(session, "dead lm_head.weight[6]")["parameters"][0]["zero_rows"].is_null());

  // Ranks that store only some rows and columns report the same dead rows as one rank.
  std::string plan = plan_text("llama", "tp_size = 2\ndp_size = 2", kPlainFsdp2);
  const std::string weights = fixture("llama") + kModel;
  plan.replace(plan.find(weights), weights.size(), (temporary / "a.safetensors").string());
  const auto outcomes = run_on_ranks(4, plan, {"dead"});
  REQUIRE(outcomes[0].ok());
  CHECK(outcomes[0].result.json["parameters"] == expected);
}

TEST_CASE("optim shows states beside their parameters", "[inspect]") {
  Session session = stored_session(kDcp);
  const Json found = json_answer(session, "optim up.*")["parameters"];
  REQUIRE(found.size() == 2);
  const Json& weight = found[1];
  CHECK(weight["name"] == "up.weight");
  CHECK(weight["step"] == 2);
  REQUIRE(weight["states"].size() == 3);
  CHECK(weight["states"][1]["state"] == "exp_avg_sq");
  const at::Tensor square = stored_double("optim.state.up.weight.exp_avg_sq");
  CHECK(weight["states"][1]["mean"].get<double>() ==
        Approx(square.mean().item<double>()).epsilon(1e-12));
  CHECK_THAT(execute(session, "optim up.weight").result.text, Catch::Contains("  exp_avg_sq"));
  Session bare = stored_session(fixture("llama") + kModel);
  CHECK_THAT(error_of(bare, "optim"), Catch::Contains("the target stores no optimizer state"));
}

TEST_CASE("values beside tensors are listed and printed", "[inspect]") {
  Session session = stored_session(kDcp);
  CHECK(json_answer(session, "ls --values")["values"].size() == 56);
  const Json betas = json_answer(session, "print optim.param_groups.up.weight.betas");
  CHECK(betas["value"] == Json{0.9, 0.999});
  CHECK(json_answer(session, "ls --values *.lr")["values"].size() == 5);
  CHECK(json_answer(session, "ls --optimizer up.weight")["parameters"].size() == 3);
  CHECK(json_answer(session, "ls --optimizer")["parameters"].size() == 16);
  CHECK_THAT(error_of(session, "ls --values nothing"), Catch::Contains("ls --values"));
}

TEST_CASE("top sorts by bytes, norms and Adam's last step", "[inspect]") {
  Session session = stored_session(kDcp);
  const Json bytes = json_answer(session, "top 2")["parameters"];
  REQUIRE(bytes.size() == 2);
  CHECK(bytes[0]["bytes"] == 416);
  const Json updates = json_answer(session, "top --by update")["parameters"];
  REQUIRE(updates.size() == 5);
  double last = INFINITY;
  for (const Json& each : updates) {
    const std::string name = each["name"];
    INFO(name);
    const at::Tensor mean = stored_double("optim.state." + name + ".exp_avg");
    const at::Tensor square = stored_double("optim.state." + name + ".exp_avg_sq");
    const at::Tensor update = 0.1 * (mean / (1.0 - std::pow(0.9, 2))) /
                              ((square / (1.0 - std::pow(0.999, 2))).sqrt() + 1e-8);
    const double ratio = update.norm().item<double>() / stored_double(name).norm().item<double>();
    CHECK(each["update"].get<double>() == Approx(ratio).epsilon(1e-9));
    CHECK(each["update"].get<double>() <= last);
    last = each["update"];
  }
  const Json twice = json_answer(session, "top --by update --lr 0.2")["parameters"];
  CHECK(twice[0]["update"].get<double>() ==
        Approx(2.0 * updates[0]["update"].get<double>()).epsilon(1e-12));
  CHECK_THAT(error_of(session, "top --by size"), Catch::Contains("bytes, norm, rms, max, update"));
  Session bare = stored_session(fixture("llama") + kModel);
  CHECK_THAT(error_of(bare, "top --by update"), Catch::Contains("no optimizer state"));
  CHECK(json_answer(bare, "top 3 --by max *norm*")["parameters"].size() == 3);
}

TEST_CASE("drift measures how far parameters and layers moved", "[inspect]") {
  const TemporaryFolder temporary;
  const auto old = temporary / "old.safetensors";
  write_changed(old, [](Tensors& values) {
    values["model.norm.weight"] *= 2.0;
    values["model.layers.1.mlp.up_proj.weight"] += 0.01;
    values["more"] = at::ones({2});
  });
  Session session = stored_session(fixture("llama") + kModel);
  const Json found = json_answer(session, "drift " + old.string());
  CHECK(found["left_out"] == Json{"more"});
  REQUIRE(found["parameters"].size() == 21);
  const Json& first = found["parameters"][0];
  CHECK(first["name"] == "model.norm.weight");
  CHECK(first["relative"].get<double>() == Approx(0.5).epsilon(1e-12));
  CHECK(first["cosine"].get<double>() == Approx(1.0).epsilon(1e-12));
  const at::Tensor now =
      checkpoint::read_all(*frameworks::open_tensor_source(fixture("llama") + kModel),
                           "model.layers.1.mlp.up_proj.weight");
  const at::Tensor before = (now + 0.01).to(at::kDouble);
  const double moved = (now.to(at::kDouble) - before).norm().item<double>();
  CHECK(found["parameters"][1]["relative"].get<double>() ==
        Approx(moved / before.norm().item<double>()).epsilon(1e-9));
  CHECK(found["parameters"][2]["relative"] == 0.0);
  const Json layers =
      json_answer(session, "drift " + old.string() + " " + fixture("llama") + " --by layer");
  REQUIRE(layers["parameters"].size() == 5);
  CHECK(layers["parameters"][1]["name"] == "model.layers.1");
  CHECK(layers["parameters"][1]["moved"].get<double>() == Approx(moved).epsilon(1e-9));
  CHECK(layers["total"] == found["total"]);
}

TEST_CASE("where names ranks and files", "[inspect]") {
  Session session = stored_session(kDcp);
  const Json found = json_answer(session, "where up.weight");
  REQUIRE(found["parts"].size() == 4);
  CHECK(found["parts"][3] == Json{{"rank", 3},
                                  {"file", "__3_0.distcp"},
                                  {"offset", {12, 0}},
                                  {"shape", {1, 8}},
                                  {"bytes", 32}});
  Session files = stored_session(fixture("llama-sharded"));
  const Json head = json_answer(files, "where lm_head.weight model.norm.weight");
  CHECK_THAT(head["parameters"][0]["parts"][0]["file"].get<std::string>(),
             Catch::StartsWith("model-0000"));
  const auto outcomes =
      run_on_ranks(2, plan_text("llama", "dp_size = 2", kPlainFsdp2), {"where lm_head.weight"});
  REQUIRE(outcomes[0].ok());
  CHECK(outcomes[0].result.json["parts"][1]["offset"] == Json{49, 0});
  CHECK(outcomes[0].result.json["parts"][1]["file"].is_null());
}

}  // namespace am::values::test
