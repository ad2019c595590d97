// Tests that sessions of two and four ranks answer like a session on the stored weights. Also tests
// `unshard` and `reshard`, and the memory of unsharded parameters.
#include <catch2/catch.hpp>

#include "support/stand_in_device.h"
#include "support/temporary_folder.h"
#include "values/session_fixture.h"

using namespace am;
using namespace am::inspect;
using namespace am::values;
using namespace am::values::test;

namespace {

const std::vector<std::string> kQuestions = {
    "ls",
    "stats",
    "nan",
    "hist lm_head.weight",
    "print model.embed_tokens.weight[95:, :3]",
    "loss 'A BCD E'",
    "logprob 'HELLO'",
    "calc norm(lm_head.weight[3:]) / rms(*norm.weight) - 1",
    "generate 'AB' --tokens 8"};

std::vector<Json> answers_at_rest(const std::string& family) {
  SessionOptions options;
  options.for_programs = true;
  Session session = stored_session(fixture(family) + "/model.safetensors", options);
  std::vector<Json> answers;
  for (const std::string& input : kQuestions) {
    const Outcome outcome = execute(session, input);
    REQUIRE(outcome.ok());
    answers.push_back(outcome.result.json);
  }
  return answers;
}

// Checks that floating-point numbers are equal within rounding, and all other values exactly.
void check_close(const Json& a, const Json& b, const std::string& where) {
  INFO(where);
  if (a.is_number_float() || b.is_number_float()) {
    CHECK(a.get<double>() == Approx(b.get<double>()).epsilon(1e-5).margin(1e-9));
    return;
  }
  REQUIRE(a.type() == b.type());
  if (a.is_structured()) {
    REQUIRE(a.size() == b.size());
    for (auto i = a.items().begin(); i != a.items().end(); ++i) {
      check_close(i.value(), a.is_object() ? b.at(i.key()) : b.at(std::stoul(i.key())),
                  where + "/" + i.key());
    }
    return;
  }
  CHECK(a == b);
}

void check_same_answers(int64_t ranks, const std::string& mesh, const std::string& strategy,
                        const std::string& family = "llama",
                        decltype(&runtime::run_ranks) run = runtime::run_ranks) {
  const auto expected = answers_at_rest(family);
  const auto outcomes = run_on_ranks(ranks, plan_text(family, mesh, strategy), kQuestions, {}, run);
  for (size_t i = 0; i < kQuestions.size(); ++i) {
    INFO(kQuestions[i] << ": " << (outcomes[i].error ? outcomes[i].error->message : ""));
    REQUIRE(outcomes[i].ok());
    check_close(outcomes[i].result.json, expected[i], kQuestions[i]);
  }
}

}  // namespace

TEST_CASE("two FSDP2 ranks answer as one", "[inspect]") {
  check_same_answers(2, "dp_size = 2", kPlainFsdp2);
}
TEST_CASE("two tensor-parallel ranks answer as one", "[inspect]") {
  check_same_answers(2, "tp_size = 2", kPlainFsdp2);
}
TEST_CASE("two FSDP2 ranks on devices answer as one", "[inspect]") {
  check_same_answers(2, "dp_size = 2", kPlainFsdp2, "llama", am::test::run_stand_ins);
}
TEST_CASE("tp 2 x dp_shard 2 answers as one", "[inspect]") {
  check_same_answers(4, "tp_size = 2\ndp_size = 2", kPlainFsdp2);
}
TEST_CASE("two DDP ranks answer as one", "[inspect]") {
  check_same_answers(2, "dp_size = 2", "name = \"ddp\"");
}

TEST_CASE("experts over ranks answer as one", "[inspect]") {
  const std::string family = GENERATE("mixtral", "deepseek_v3");
  check_same_answers(2, "ep_size = 2", kPlainFsdp2, family);
  check_same_answers(4, "tp_size = 2\nep_size = 2", kPlainFsdp2, family);
}

TEST_CASE("a unit's experts are shown and gathered where they are", "[inspect]") {
  const std::string expert =
      "model.layers.0.block_sparse_moe.experts.3.w1.weight";  // stored on ranks 1 and 3
  const auto outcomes = run_on_ranks(
      4, plan_text("mixtral", "world_size = 4\nep_size = 2", kPlainFsdp2),
      {"show " + expert, "unshard " + expert, "memory", "stats " + expert, "reshard", "memory"});
  for (const Outcome& outcome : outcomes) {
    INFO((outcome.error ? outcome.error->message : ""));
    REQUIRE(outcome.ok());
  }
  const Json& shown = outcomes[0].result.json;
  CHECK(shown["placements"] == Json{{"ep_shard", "Shard(0)"}});
  REQUIRE(shown["shards"].size() == 2);
  CHECK(shown["shards"][0] == Json{{"rank", 1}, {"offset", {0, 0}}, {"shape", {24, 32}}});
  CHECK(shown["shards"][1] == Json{{"rank", 3}, {"offset", {24, 0}}, {"shape", {24, 32}}});
  CHECK(outcomes[1].result.json["boxes_after"].size() == 2);
  CHECK(outcomes[1].result.json["boxes_after"][0]["shape"] == Json{48, 32});
  for (const Json& rank : outcomes[2].result.json["ranks"]) CHECK(rank["unsharded_bytes"] > 0);
  for (const Json& rank : outcomes[5].result.json["ranks"]) CHECK(rank["unsharded_bytes"] == 0);
}

TEST_CASE("sequence parallelism answers as one rank, at any length of text", "[inspect]") {
  const std::string own =
      GENERATE(std::string(kPlainFsdp2), "name = \"megatron\"\nparams_dtype = \"float32\"");
  const std::string strategy = cat(own, "\nsequence_parallel = true");
  check_same_answers(2, "tp_size = 2", strategy);
  SessionOptions options;
  options.for_programs = true;
  Session at_rest = stored_session(fixture("llama") + "/model.safetensors", options);
  std::vector<std::string> questions;
  for (const char* text : {"AB", "ABC", "ABCD", "ABCDE"}) {
    for (const char* command : {"loss ", "logprob ", "generate --tokens 3 "}) {
      questions.push_back(cat(command, text));
    }
  }
  const auto outcomes = run_on_ranks(2, plan_text("llama", "tp_size = 2", strategy), questions);
  for (size_t i = 0; i < questions.size(); ++i) {
    INFO(questions[i] << ": " << (outcomes[i].error ? outcomes[i].error->message : ""));
    REQUIRE(outcomes[i].ok());
    check_close(outcomes[i].result.json, execute(at_rest, questions[i]).result.json, questions[i]);
  }
}

TEST_CASE("show gives every rank's box and the placements", "[inspect]") {
  const auto outcomes =
      run_on_ranks(2, plan_text("llama", "dp_size = 2", kPlainFsdp2), {"show lm_head.weight"});
  REQUIRE(outcomes[0].ok());
  const Json& shown = outcomes[0].result.json;
  CHECK(shown["placements"] == Json{{"dp_shard_cp", "Shard(0)"}});
  CHECK(shown["shards"][0] == Json{{"rank", 0}, {"offset", {0, 0}}, {"shape", {49, 32}}});
  CHECK(shown["shards"][1] == Json{{"rank", 1}, {"offset", {49, 0}}, {"shape", {48, 32}}});
}

TEST_CASE("unshard gathers a unit, forward passes keep it, reshard frees it", "[inspect]") {
  const auto outcomes =
      run_on_ranks(2, plan_text("llama", "dp_size = 2", kPlainFsdp2),
                   {"memory", "unshard model.layers.0.mlp.up_proj.weight", "loss 'ABCD'", "memory",
                    "unshard model.layers.0", "reshard", "loss 'ABCD'", "memory"});
  for (const Outcome& outcome : outcomes) REQUIRE(outcome.ok());
  const auto unsharded = [](const Json& ranks) {
    return ranks[1]["unsharded_bytes"].get<int64_t>();
  };
  CHECK(unsharded(outcomes[0].result.json["ranks"]) == 0);
  const Json& change = outcomes[1].result.json;
  CHECK(change["parameters"].size() == 9);  // all parameters of the layer are gathered
  CHECK(unsharded(change["before"]) == 0);
  const int64_t layer = unsharded(change["after"]);
  // Shapes of the layer: q, o: 32x32; k, v: 16x32; gate, up, down: 48x32; two norms of 32; all
  // float32.
  CHECK(layer == 4 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32 + 2 * 32));
  CHECK(change["boxes_before"][1]["offset"] == Json{24, 0});
  CHECK(change["boxes_after"][1]["shape"] == Json{48, 32});
  CHECK(unsharded(outcomes[3].result.json["ranks"]) == layer);
  CHECK(unsharded(outcomes[4].result.json["after"]) == layer);
  CHECK(unsharded(outcomes[5].result.json["after"]) == 0);
  CHECK(unsharded(outcomes[7].result.json["ranks"]) == 0);
  CHECK(outcomes[2].result.json["loss"] == outcomes[6].result.json["loss"]);
}

TEST_CASE("wrong commands leave the ranks in step", "[inspect]") {
  const auto outcomes =
      run_on_ranks(2, plan_text("llama", "dp_size = 2", kPlainFsdp2),
                   {"show nothing", "loss ABCz", "set dtype float32", "stats model.norm.weight"});
  CHECK_FALSE(outcomes[0].ok());
  CHECK_FALSE(outcomes[1].ok());
  CHECK_FALSE(outcomes[0].error->fatal());
  CHECK_THAT(outcomes[2].error->message, Catch::Contains("is set in the plan"));
  CHECK(outcomes[3].ok());
}

TEST_CASE("an export of a sharded model holds the same values", "[inspect]") {
  const TemporaryFolder temporary;
  const auto folder = temporary / "export";
  const auto outcomes = run_on_ranks(4, plan_text("llama", "tp_size = 2\ndp_size = 2", kPlainFsdp2),
                                     {"export " + folder.string()});
  INFO((outcomes[0].error ? outcomes[0].error->message : ""));
  REQUIRE(outcomes[0].ok());
  Session exported = stored_session(folder.string());
  Session original = stored_session(fixture("llama") + "/model.safetensors");
  CHECK(execute(exported, "stats").result.json == execute(original, "stats").result.json);
}
