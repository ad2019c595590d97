#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
// Tests `diff`, which compares two checkpoints, and `fits`, which compares a checkpoint with a
// model.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "support/temporary_folder.h"
#include "values/changed_file.h"
#include "values/session_fixture.h"

namespace am::values::test {

using namespace inspect;

TEST_CASE("diff finds names, shapes, dtypes and the largest differences", "[inspect]") {
  const TemporaryFolder temporary;
  const auto other = temporary / "other.safetensors";
  write_changed(other, [](std::map<std::string, at::Tensor>& values) {
    values["model.norm.weight"][3] += 0.5;
    values["lm_head.weight"][1][2] = NAN;
    values["model.embed_tokens.weight"] = values["model.embed_tokens.weight"].to(at::kBFloat16);
    values["model.layers.0.mlp.up_proj.weight"] =
        values["model.layers.0.mlp.up_proj.weight"].narrow(0, 0, 7).contiguous();
    values["more"] = at::ones({2});
    values.erase("model.layers.1.mlp.up_proj.weight");
  });
  Session session = stored_session(fixture("llama") + kModel);
  const Outcome outcome = execute(session, "diff " + other.string());
  REQUIRE(outcome.ok());
  const Json all = outcome.result.json["parameters"];
  CHECK(all.size() == 22);
  const Json norm = find_named(all, "model.norm.weight");
  CHECK(norm["status"] == "different");
  CHECK(norm["max_abs"].get<double>() == Approx(0.5).epsilon(1e-6));
  const double here =
      checkpoint::read_all(*frameworks::open_tensor_source(fixture("llama") + kModel),
                           "model.norm.weight")[3]
          .item<double>();
  CHECK(norm["relative"].get<double>() == Approx(0.5 / (here + 0.5)).epsilon(1e-6));
  CHECK(find_named(all, "lm_head.weight")["status"] == "different");
  CHECK(find_named(all, "lm_head.weight")["max_abs"].is_null());
  CHECK(find_named(all, "model.embed_tokens.weight")["status"] == "dtype");
  CHECK(find_named(all, "model.embed_tokens.weight")["relative"].get<double>() < 0.004);
  CHECK(find_named(all, "model.layers.0.mlp.up_proj.weight")["status"] == "shape");
  CHECK(find_named(all, "model.layers.1.mlp.up_proj.weight")["status"] == "only here");
  CHECK(find_named(all, "more")["status"] == "only there");
  CHECK(find_named(all, "model.layers.1.mlp.down_proj.weight") ==
        Json{{"name", "model.layers.1.mlp.down_proj.weight"},
             {"status", "equal"},
             {"max_abs", 0.0},
             {"relative", 0.0}});
  CHECK_THAT(outcome.result.text, Catch::Contains("16 of 22 parameters are equal"));
  CHECK_THAT(execute(session, "diff " + fixture("llama-sharded")).result.text,
             Catch::Contains("parameters are equal"));
  CHECK_THAT(error_of(session, "diff nowhere"), Catch::Contains("no such file or folder"));

  const Outcome between =
      execute(session, "diff " + other.string() + " " + fixture("llama") + kModel);
  CHECK(find_named(between.result.json["parameters"], "more")["status"] == "only here");
  const Outcome folded = execute(session, "diff " + other.string() + " --by layer");
  const Json layers = folded.result.json["parameters"];
  CHECK(find_named(layers, "model.layers.0")["status"] == "shape");
  CHECK(find_named(layers, "model.layers.1")["status"] == "only here");
  CHECK(find_named(layers, "model.norm")["max_abs"].get<double>() == Approx(0.5).epsilon(1e-6));
  CHECK_THAT(folded.result.text, Catch::Contains("1 of 9"));
}

// The assignment of blocks to threads varies, but the sequence of collectives must be the same on
// all ranks.
TEST_CASE("ranks compare two checkpoints on several threads", "[inspect]") {
  const TemporaryFolder temporary;
  const auto with = [&](const char* name, double last) {
    const std::string path = (temporary / name).string();
    write_changed(path, [&](std::map<std::string, at::Tensor>& values) {
      values["large"] = at::linspace(0.0, last, int64_t{4} << 20).reshape({4096, 1024});
    });
    return path;
  };
  const std::string files = with("a.safetensors", 1.0) + " " + with("b.safetensors", 1.5);
  const auto outcomes =
      run_on_ranks(2, plan_text("llama", "dp_size = 2", kPlainFsdp2),
                   {"diff " + files, "drift " + files, "diff " + files + " --by layer"},
                   [](Session&) { at::set_num_threads(3); });
  CHECK(find_named(outcomes[0].result.json["parameters"], "large")["max_abs"].get<double>() ==
        Approx(0.5).epsilon(1e-6));
  CHECK(find_named(outcomes[1].result.json["parameters"], "large")["relative"].get<double>() ==
        Approx(0.5).epsilon(1e-6));
  CHECK(find_named(outcomes[2].result.json["parameters"], "large")["status"] == "different");
}

TEST_CASE("equal infinities and NaN on both sides are no difference", "[inspect]") {
  const TemporaryFolder temporary;
  const auto odd = [](std::map<std::string, at::Tensor>& values) {
    values["model.norm.weight"][0] = NAN;
    values["model.norm.weight"][1] = INFINITY;
  };
  write_changed(temporary / "a.safetensors", odd);
  write_changed(temporary / "b.safetensors", odd);
  Session session = stored_session((temporary / "a.safetensors").string());
  CHECK(execute(session, "diff " + (temporary / "b.safetensors").string()).result.text ==
        "21 of 21 parameters are equal\n");
}

TEST_CASE("fits holds names and shapes against a config or a plan", "[inspect]") {
  Session session = stored_session(fixture("llama") + kModel);
  CHECK(execute(session, "fits " + fixture("llama")).ok());
  CHECK(execute(session, "fits " + fixture("llama") + "/config.json").ok());
  const Outcome other = execute(session, "fits " + fixture("qwen3"));
  REQUIRE_FALSE(other.error);
  CHECK_FALSE(other.ok());
  CHECK(to_json(other)["ok"] == false);
  CHECK(find_named(other.result.json["misfits"],
                   "model.layers.0.self_attn.q_norm.weight")["what"] == "is missing");
  const Outcome bias = execute(session, "fits " + fixture("llama-bias"));
  CHECK_FALSE(bias.ok());

  const TemporaryFolder temporary;
  write_text(temporary / "plan.toml", plan_text("llama", "world_size = 2", kPlainFsdp2));
  CHECK_THAT(execute(session, "fits " + (temporary / "plan.toml").string()).result.text,
             Catch::Contains("all fit"));
  const auto odd = temporary / "odd.safetensors";
  write_changed(odd, [](std::map<std::string, at::Tensor>& values) {
    values["model.norm.weight"] = at::ones({7});
    values["more"] = at::ones({2});
  });
  Session changed = stored_session(odd.string());
  const Json misfits = execute(changed, "fits " + fixture("llama")).result.json["misfits"];
  CHECK(misfits == Json::array({{{"name", "model.norm.weight"},
                                 {"what", "is [7], but the config requires [32]"}},
                                {{"name", "more"}, {"what", "is not a parameter of the model"}}}));
  CHECK_THAT(error_of(session, "fits nowhere"), Catch::Contains("no such file or folder"));
}

}  // namespace am::values::test
