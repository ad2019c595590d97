// Tests `grad`, `step`, `optim` and `collectives`, on stored models and on several ranks: the
// numbers equal those of transformers and PyTorch, under any layout.
#include <cmath>

#include "am/base/file.h"
#include "support/folders.h"
#include "values/session_fixture.h"

using namespace am;
using namespace am::inspect;
using namespace am::values;
using namespace am::values::test;

namespace {

Json fixture_json(const std::string& name) {
  return Json::parse(read_file(std::string(am::test::kDataFolder) + "/" + name));
}

SessionOptions for_programs() {
  SessionOptions options;
  options.for_programs = true;
  return options;
}

const Json& rows_of(const Outcome& outcome, const char* key) {
  INFO(outcome.input << ": " << (outcome.error ? outcome.error->message : ""));
  REQUIRE(outcome.ok());
  return outcome.result.json.at(key);
}

void check_rows(const Json& rows, const Json& expected, double tolerance) {
  REQUIRE(rows.size() == expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO(expected[i]["name"]);
    CHECK(rows[i]["name"] == expected[i]["name"]);
    CHECK(rows[i]["numel"] == expected[i]["numel"]);
    for (const char* key : {"min", "max", "mean", "norm"}) {
      INFO(key);
      CHECK(rows[i][key].get<double>() ==
            Approx(expected[i][key].get<double>())
                .epsilon(tolerance)
                .margin(tolerance * expected[i]["norm"].get<double>()));
    }
  }
}

// Returns the plan of a training run of twenty steps. The fixtures contain PyTorch's results for
// the same run.
std::string loop_plan(const std::string& mesh, const std::string& strategy) {
  const std::string data(am::test::kDataFolder);
  return cat(
      "[model]\npath = \"", data, "/loop/model\"\nweights = \"", data, "/loop/model\"\n[mesh]\n",
      mesh, "\n[strategy]\n", strategy,
      "\n[train]\nseq_len = 16\nmicro_batch_size = 2\nglobal_batch_size = 8\nmax_steps = 20\n"
      "[optimizer]\nlr = 1e-2\n[data]\nkind = \"tokens\"\npath = \"",
      data, "/loop/tokens.bin\"\nshuffle = false\n");
}

struct Layout {
  int64_t ranks;
  const char* mesh;
  const char* strategy;
};
const std::vector<Layout> kLayouts = {
    {2, "dp_size = 2", kPlainFsdp2},
    {2, "tp_size = 2", kPlainFsdp2},
    {4, "tp_size = 2\ndp_size = 2", kPlainFsdp2},
    {2, "dp_size = 2", "name = \"ddp\""},
    {2, "cp_size = 2", kPlainFsdp2},
    {2, "world_size = 2\npp_size = 2",
     "name = \"fsdp2\"\nmp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", "
     "output_dtype = \"float32\" }\n[pipeline]\nschedule = \"1f1b\"\nmicrobatches = 2"},
};

}  // namespace

TEST_CASE("gradients of a text are autograd's of transformers' models", "[inspect]") {
  const Json expected = fixture_json("text_gradients.json");
  for (const auto& [family, wanted] : expected.items()) {
    INFO(family);
    Session session = stored_session(fixture(family), for_programs());
    const Outcome outcome =
        execute(session, cat("grad --of '", wanted["text"].get<std::string>(), "'"));
    const Json& rows = rows_of(outcome, "gradients");
    CHECK(outcome.result.json["loss"].get<double>() ==
          Approx(wanted["loss"].get<double>()).epsilon(1e-5));
    double squared = 0.0;
    size_t seen = 0;
    for (const Json& row : rows) {
      const std::string name = row["name"].get<std::string>();
      const auto gradient = wanted["gradients"].find(name);
      INFO(name);
      REQUIRE(gradient != wanted["gradients"].end());
      const double sum = row["mean"].get<double>() * row["numel"].get<double>();
      const double norm = (*gradient)[1].get<double>();
      CHECK(sum == Approx((*gradient)[0].get<double>()).epsilon(1e-4).margin(1e-5 * norm));
      CHECK(row["norm"].get<double>() == Approx(norm).epsilon(1e-5));
      CHECK(row["max"].get<double>() == Approx((*gradient)[2].get<double>()).epsilon(1e-4));
      squared += norm * norm;
      ++seen;
    }
    CHECK(seen == wanted["gradients"].size());
    CHECK(outcome.result.json["norm"].get<double>() == Approx(std::sqrt(squared)).epsilon(1e-5));
  }
}

TEST_CASE("gradients are tensors like others until the model changes", "[inspect]") {
  Session session = stored_session(fixture("llama"), for_programs());
  CHECK_THAT(error_of(session, "grad"), Catch::Contains("no gradients yet"));
  CHECK_THAT(error_of(session, "stats grad.model.norm.weight"), Catch::Contains("no parameter"));
  rows_of(execute(session, "grad model.norm.weight --of 'ABCD'"), "gradients");
  const Outcome again = execute(session, "grad model.norm.weight");
  const Json stats = rows_of(execute(session, "stats grad.model.norm.weight"), "stats");
  CHECK(stats[0]["norm"] == rows_of(again, "gradients")[0]["norm"]);
  CHECK(rows_of(execute(session, "grad model.norm.weight[:4]"), "gradients")[0]["numel"] == 4);
  CHECK(execute(session, "print grad.model.norm.weight[0:2]").ok());
  CHECK(execute(session, "memory").result.json["ranks"][0]["gradient_bytes"].get<int64_t>() > 0);
  REQUIRE(execute(session, "set dtype bfloat16").ok());
  CHECK_THAT(error_of(session, "grad"), Catch::Contains("no gradients yet"));
  CHECK_THAT(error_of(session, "grad --of 'A'"), Catch::Contains("at least two"));
  CHECK_THAT(error_of(session, "step"), Catch::Contains("it has no data"));
  CHECK_THAT(error_of(session, "collectives"), Catch::Contains("no running ranks"));
}

TEST_CASE("gradients of a text are the same on every layout", "[inspect]") {
  Session at_rest = stored_session(fixture("llama") + kModel, for_programs());
  const std::vector<std::string> questions = {"grad --of 'THE SMALL PRINT'", "loss 'ABCD'", "grad",
                                              "norms grad.model.norm.weight"};
  std::vector<Outcome> expected;
  for (const std::string& question : questions) expected.push_back(execute(at_rest, question));
  for (const Layout& layout : kLayouts) {
    INFO(layout.mesh << ", " << layout.strategy);
    const auto outcomes =
        run_on_ranks(layout.ranks, plan_text("llama", layout.mesh, layout.strategy), questions);
    check_rows(rows_of(outcomes[0], "gradients"), rows_of(expected[0], "gradients"), 2e-5);
    CHECK(outcomes[0].result.json["loss"].get<double>() ==
          Approx(expected[0].result.json["loss"].get<double>()).epsilon(1e-5));
    check_rows(rows_of(outcomes[2], "gradients"), rows_of(expected[2], "gradients"), 2e-5);
    CHECK(rows_of(outcomes[3], "norms")[0]["l2"].get<double>() ==
          Approx(rows_of(expected[3], "norms")[0]["l2"].get<double>()).epsilon(2e-5));
  }
}

TEST_CASE("a plan's ranks train PyTorch's steps", "[inspect]") {
  const Json curve = fixture_json("loop/losses.json");
  const std::vector<std::string> inputs = {"step",
                                           "step 2",
                                           "grad",
                                           "optim",
                                           "stats optim.state.model.norm.weight.exp_avg_sq",
                                           "memory",
                                           "norms",
                                           "checksum",
                                           "collectives",
                                           "top 3 --by update"};
  const auto expected = run_on_ranks(1, loop_plan("world_size = 1", "name = \"ddp\""), inputs);
  for (size_t i = 0; i + 2 < inputs.size(); ++i) {
    INFO(inputs[i] << ": " << (expected[i].error ? expected[i].error->message : ""));
    REQUIRE(expected[i].ok());
  }
  const Json& losses = curve.at("losses");
  for (const Layout& layout : kLayouts) {
    INFO(layout.mesh << ", " << layout.strategy);
    const auto outcomes =
        run_on_ranks(layout.ranks, loop_plan(layout.mesh, layout.strategy), inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      INFO(inputs[i] << ": " << (outcomes[i].error ? outcomes[i].error->message : ""));
      REQUIRE(outcomes[i].ok());
    }
    CHECK(outcomes[0].result.json["step"] == 1);
    CHECK(outcomes[1].result.json["step"] == 3);
    CHECK(outcomes[0].result.json["loss"].get<double>() ==
          Approx(losses[0].get<double>()).epsilon(1e-5));
    CHECK(outcomes[1].result.json["loss"].get<double>() ==
          Approx(losses[2].get<double>()).epsilon(1e-5));
    check_rows(rows_of(outcomes[2], "gradients"), rows_of(expected[2], "gradients"), 1e-4);
    CHECK(outcomes[2].result.json["of"] == "of step 3");
    check_rows(rows_of(outcomes[4], "stats"), rows_of(expected[4], "stats"), 1e-4);
    const Json& optim = rows_of(outcomes[3], "parameters");
    REQUIRE(optim.size() == expected[3].result.json["parameters"].size());
    for (const Json& each : optim) {
      CHECK(each["step"] == 3);
      CHECK(each["states"].size() == 2);
    }
    for (const Json& rank : outcomes[5].result.json["ranks"]) {
      CHECK(rank["optimizer_bytes"].get<int64_t>() > 0);
      CHECK(rank["gradient_bytes"].get<int64_t>() > 0);
    }
    const Json& ranks = rows_of(outcomes[8], "ranks");
    REQUIRE(ranks.size() == static_cast<size_t>(layout.ranks));
    for (const Json& rank : ranks) {
      CHECK(rank["collectives"].size() > 4);
      CHECK(rank["collectives"][0]["bytes"].get<int64_t>() > 0);
    }
    CHECK(rows_of(outcomes[9], "parameters").size() == 3);
  }
}

TEST_CASE("what tp cuts is put together by unshard, and freed by reshard and step", "[inspect]") {
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const auto outcomes =
      run_on_ranks(4, plan_text("llama", "tp_size = 2\ndp_size = 2", kPlainFsdp2),
                   {"unshard " + name, "memory", "print " + name + "[23:25, :2]", "loss 'ABCD'",
                    "reshard", "memory", "unshard " + name, "unshard " + name, "step", "memory"});
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.input << ": " << (outcome.error ? outcome.error->message : ""));
    REQUIRE(outcome.ok());
  }
  const Json& change = outcomes[0].result.json;
  REQUIRE(change["boxes_after"].size() == 4);
  for (const Json& box : change["boxes_after"]) CHECK(box["shape"] == Json{48, 32});
  const auto unsharded = [](const Json& ranks) {
    return ranks[3]["unsharded_bytes"].get<int64_t>();
  };
  CHECK(unsharded(change["after"]) - unsharded(change["before"]) > 4 * 48 * 32);
  CHECK(unsharded(outcomes[5].result.json["ranks"]) == 0);
  CHECK(outcomes[6].result.json["after"] == outcomes[7].result.json["after"]);
  CHECK(unsharded(outcomes[9].result.json["ranks"]) == 0);
}
