#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
// Compares norms, positions of NaN, slices and optimizer states with ATen's results for the same
// tensors.
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

at::Tensor ramp_of(std::vector<int64_t> shape, at::ScalarType dtype) {
  const at::Tensor values =
      at::arange(am::numel(shape), at::TensorOptions(at::kDouble)).square().sin() * 3.0;
  return values.reshape(shape).to(dtype);
}

// Returns the shard of a parameter that this rank stores.
at::Tensor own_value(Session& session, const std::string& name) {
  for (parallel::ParamGroup* group : values_of(session).runnable().groups()) {
    for (const auto& owned : group->owned()) {
      if (owned.name == name) return owned.value;
    }
  }
  return {};
}

}  // namespace

TEST_CASE("norms equal ATen's, for every dtype", "[inspect]") {
  const TemporaryFolder temporary;
  Tensors values;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong, at::kInt,
                           at::kShort, at::kChar, at::kByte, at::kFloat8_e4m3fn}) {
    values[std::string("w.") + c10::toString(dtype)] = ramp_of({37, 11}, dtype);
  }
  values["w.bool"] = ramp_of({13}, at::kDouble).gt(0.0);
  write_tensors(temporary / "a.safetensors", values);
  Session session = stored_session((temporary / "a.safetensors").string());
  const Json answer = json_answer(session, "norms");
  double squares = 0.0;
  for (const auto& [name, value] : values) {
    INFO(name);
    const at::Tensor numbers = value.to(at::kDouble).reshape({-1});
    const Json norms = find_named(answer["norms"], name);
    CHECK(norms["l1"].get<double>() == Approx(numbers.abs().sum().item<double>()).epsilon(1e-12));
    CHECK(norms["l2"].get<double>() == Approx(numbers.norm().item<double>()).epsilon(1e-12));
    CHECK(norms["max"].get<double>() == numbers.abs().max().item<double>());
    CHECK(norms["rms"].get<double>() ==
          Approx(numbers.square().mean().sqrt().item<double>()).epsilon(1e-12));
    squares += numbers.square().sum().item<double>();
  }
  CHECK(answer["total"]["l2"].get<double>() == Approx(std::sqrt(squares)).epsilon(1e-12));
  for (const char* other : {"nan", "dead", "checksum", "hist w.*", "top --by rms", "plot"}) {
    json_answer(session, other);
  }
  for (const auto& [name, value] : values) {
    json_answer(session, "heat " + name);
    json_answer(session, "print " + name + "[:3]");
  }
}

TEST_CASE("what is NaN alone has no norm", "[inspect]") {
  const TemporaryFolder temporary;
  write_tensors(temporary / "a.safetensors",
                {{"bad", at::full({3}, NAN)}, {"empty", at::empty({0, 4})}});
  Session session = stored_session((temporary / "a.safetensors").string());
  const Json stats = json_answer(session, "stats")["stats"];
  CHECK(stats[0]["norm"].is_null());
  CHECK(stats[1]["norm"] == 0.0);
  CHECK(json_answer(session, "norms")["norms"][0]["l1"].is_null());
  for (const char* other : {"nan", "dead", "checksum", "show *", "where *", "top --by norm"}) {
    json_answer(session, other);
  }
}

TEST_CASE("cuts of one dim are shown in their order", "[inspect]") {
  const auto outcomes = run_on_ranks(4, plan_text("llama", "tp_size = 2\ndp_size = 2", kPlainFsdp2),
                                     {"show model.layers.0.self_attn.q_proj.weight",
                                      "show model.layers.0.self_attn.o_proj.weight"});
  CHECK_THAT(outcomes[0].result.text, Catch::Contains("tp: Shard(0), then dp_shard_cp: Shard(0)"));
  CHECK_THAT(outcomes[1].result.text, Catch::Contains("dp_shard_cp: Shard(0), tp: Shard(1)"));
}

TEST_CASE("norms fold layers", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  const Json folded = json_answer(session, "norms --by layer");
  REQUIRE(folded["norms"].size() == 5);
  CHECK(folded["norms"][2]["name"] == "model.layers.0");
  const Json layer = json_answer(session, "norms model.layers.0");
  CHECK(folded["norms"][2]["l2"].get<double>() ==
        Approx(layer["total"]["l2"].get<double>()).epsilon(1e-13));
  CHECK(folded["total"]["numel"] == 21728);
  CHECK_THAT(error_of(session, "norms --by row"), Catch::Contains("parameter or layer"));
}

TEST_CASE("nan names the first bad index of each tensor", "[inspect]") {
  const TemporaryFolder temporary;
  write_changed(temporary / "a.safetensors", [](Tensors& values) {
    values["lm_head.weight"][7][3] = NAN;
    values["lm_head.weight"][7][2] = INFINITY;
    values["lm_head.weight"][96][0] = NAN;
    values["model.norm.weight"][31] = -INFINITY;
    at::Tensor eighth = at::ones({4, 4});
    eighth[2][1] = NAN;
    values["quantised"] = eighth.to(at::kFloat8_e4m3fn);
  });
  Session session = stored_session((temporary / "a.safetensors").string());
  const Json found = json_answer(session, "nan");
  CHECK(found["looked_at"] == 22);
  CHECK(found["parameters"] ==
        Json::array({{{"name", "lm_head.weight"}, {"nan", 2}, {"inf", 1}, {"first", {7, 2}}},
                     {{"name", "model.norm.weight"}, {"nan", 0}, {"inf", 1}, {"first", Json{31}}},
                     {{"name", "quantised"}, {"nan", 1}, {"inf", 0}, {"first", {2, 1}}}}));
  CHECK(json_answer(session, "nan lm_head.weight[8:]")["parameters"][0]["first"] == Json{96, 0});
  CHECK(execute(session, "nan").ok());
  CHECK_FALSE(execute(session, "nan --strict").ok());
  CHECK(execute(session, "nan --strict model.layers").ok());
}

TEST_CASE("calc reckons with numbers of tensors", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  const at::Tensor head =
      checkpoint::read_all(*frameworks::open_tensor_source(fixture("llama") + kModel),
                           "lm_head.weight")
          .to(at::kDouble);
  const auto value = [&](const std::string& text) {
    INFO(text);
    return json_answer(session, "calc " + text)["value"].get<double>();
  };
  CHECK(value("1 + 2 * 3 - 4 / 8") == 6.5);
  CHECK(value("-(2 - 5) * - -2e1") == 60.0);
  CHECK(value("norm(lm_head.weight[2:9, :5])") ==
        Approx(head.slice(0, 2, 9).slice(1, 0, 5).norm().item<double>()));
  CHECK(value("norm(lm_head.weight[:4]) / norm(lm_head.weight)") ==
        Approx((head.slice(0, 0, 4).norm() / head.norm()).item<double>()));
  CHECK(value("sum(lm_head.weight)") == Approx(head.sum().item<double>()));
  CHECK(value("absmax(lm_head.weight)") == head.abs().max().item<double>());
  CHECK(value("numel(*norm.weight) + nan(lm_head.weight)") == 5 * 32);
  REQUIRE(execute(session, "let w = lm_head.weight[3]").ok());
  CHECK(value("(max(w) - min(w[4:])) / std(w)") ==
        Approx(((head[3].max() - head[3].slice(0, 4).min()) / head[3].std()).item<double>()));
  CHECK(json_answer(session, "calc 1 / 0")["value"].is_null());
  for (const char* wrong :
       {"1 +", "(1", "1)", "norm(lm_head.weight", "norm", "size(lm_head.weight)", "lm_head.weight",
        "2 3", "$", "norm(nothing)", "1 | 2"}) {
    INFO(wrong);
    CHECK_FALSE(execute(session, cat("calc ", wrong)).ok());
  }
  CHECK_THAT(error_of(session, "calc " + std::string(70, '(')),
             Catch::Contains("64 nested brackets"));
  CHECK_THAT(error_of(session, "calc mode(w)"),
             Catch::Contains("not a measure") && Catch::Contains("absmax"));
}

TEST_CASE("a slice, a glob of modules and several names are rows", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  const at::Tensor head = checkpoint::read_all(
      *frameworks::open_tensor_source(fixture("llama") + kModel), "lm_head.weight");
  const Json stats = json_answer(session, "stats lm_head.weight[2:9, :5] norm lm_head.weight[-1]");
  REQUIRE(stats["stats"].size() == 3);
  CHECK(stats["stats"][0]["name"] == "lm_head.weight[2:9, :5]");
  CHECK(stats["stats"][0]["norm"].get<double>() ==
        Approx(head.slice(0, 2, 9).slice(1, 0, 5).to(at::kDouble).norm().item<double>()));
  CHECK(stats["stats"][2]["mean"].get<double>() ==
        Approx(head[-1].to(at::kDouble).mean().item<double>()));
  CHECK(json_answer(session, "ls model.layers.*.mlp")["parameters"].size() == 6);
  CHECK(json_answer(session, "show *norm.weight")["parameters"].size() == 5);
  CHECK(json_answer(session, "show *.[qk]_proj.weight")["parameters"].size() == 4);
  CHECK(json_answer(session, "show *.layers.[01].mlp*")["parameters"].size() == 6);
  CHECK(json_answer(session, "stats *.[qk]_proj.weight[:2]")["stats"].size() == 4);
  CHECK(json_answer(session, "hist *norm.weight")["histograms"].size() == 5);
  CHECK(json_answer(session, "stats norm norm")["stats"].size() == 1);
  CHECK_THAT(error_of(session, "stats lm_head.weight[0:2"), Catch::Contains("not closed"));
  CHECK_THAT(error_of(session, "stats *.[qk]_proj.weight[:2"), Catch::Contains("not closed"));
  SessionOptions options;
  options.for_programs = true;
  Session program = stored_session(fixture("llama") + kModel, options);
  CHECK(json_answer(program, "print *norm.weight[:3]")["tensors"].size() == 5);
}

TEST_CASE("states are listed and read like parameters", "[inspect]") {
  Session session = stored_session(std::string(am::test::kDataFolder) + "/dcp/fsdp4");
  CHECK(json_answer(session, "ls")["parameters"].size() == 5);
  CHECK(json_answer(session, "ls *exp_avg")["parameters"].size() == 5);
  CHECK(json_answer(session, "ls optim.state.up.weight")["parameters"].size() == 3);
  CHECK(json_answer(session, "show optim.state.up.weight.exp_avg")["shards"].size() == 4);
  const at::Tensor moment =
      checkpoint::read_all(
          *frameworks::open_tensor_source(std::string(am::test::kDataFolder) + "/dcp/fsdp4"),
          "optim.state.up.weight.exp_avg")
          .to(at::kDouble);
  CHECK(json_answer(session, "norms optim.state.up.weight.exp_avg")["total"]["l1"].get<double>() ==
        Approx(moment.abs().sum().item<double>()).epsilon(1e-12));
}

TEST_CASE("ranks find norms, slices and the first NaN of what they share", "[inspect]") {
  const std::string mesh = GENERATE("tp_size = 2\ndp_size = 2", "dp_size = 4");
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const std::vector<std::string> questions = {"norms", "stats lm_head.weight[90:, 3:7]"};
  const auto outcomes = run_on_ranks(4, plan_text("llama", mesh, kPlainFsdp2), questions);
  Session at_rest = stored_session(fixture("llama") + kModel);
  for (size_t i = 0; i < questions.size(); ++i) {
    REQUIRE(outcomes[i].ok());
    const std::string list = i == 0 ? "norms" : "stats";
    const Json expected = json_answer(at_rest, questions[i])[list];
    const Json& found = outcomes[i].result.json[list];
    REQUIRE(found.size() == expected.size());
    for (size_t k = 0; k < found.size(); ++k) {
      for (const auto& [key, value] : found[k].items()) {
        if (!value.is_number_float()) {
          CHECK(value == expected[k][key]);
        } else {
          CHECK(value.get<double>() == Approx(expected[k][key].get<double>()).epsilon(1e-12));
        }
      }
    }
  }
  const auto with_nan =
      run_on_ranks(4, plan_text("llama", mesh, kPlainFsdp2), {"nan"}, [&](Session& session) {
        const HeldParameter& parameter = session.parameter(name);
        for (const HeldShard& shard : parameter.shards) {
          if (shard.rank != session.view().rank() || shard.box.offset[0] + shard.box.shape[0] < 32)
            continue;
          own_value(session, name)[shard.box.shape[0] - 1][1] =
              NAN;  // an element in the last row of the shard
        }
      });
  REQUIRE(with_nan[0].ok());
  const Json found = with_nan[0].result.json["parameters"];
  REQUIRE(found.size() == 1);
  CHECK(found[0]["name"] == name);
  CHECK(found[0]["first"] == Json{31, 1});
}

}  // namespace am::values::test
