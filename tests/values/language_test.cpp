// Tests `loss`, `logprob` and `generate`: results equal those of transformers, under any layout.
#include "am/values/language.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "am/checkpoint/read_tensor.h"
#include "am/formats/safetensors.h"
#include "am/frameworks/open_weights.h"
#include "values/session_fixture.h"

using namespace am;
using namespace am::inspect;
using namespace am::values;
using namespace am::values::test;

namespace {

std::vector<int64_t> ids_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({-1}).contiguous();
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

}  // namespace

TEST_CASE("log-probabilities equal those of transformers' logits", "[inspect]") {
  for (const std::string family : {"llama", "mistral", "qwen2", "qwen3"}) {
    INFO(family);
    const auto reference =
        frameworks::open_tensor_source(fixture(family) + "/reference.safetensors");
    const at::Tensor ids = checkpoint::read_all(*reference, "input_ids")[0];
    const at::Tensor expected =
        at::log_softmax(checkpoint::read_all(*reference, "logits")[0].to(at::kDouble), -1);
    Session session = stored_session(fixture(family) + "/model.safetensors");
    const auto logs = log_probabilities(session, ids_of(ids));
    REQUIRE(logs.size() == 15);
    double sum = 0.0;
    for (int64_t i = 0; i < 15; ++i) {
      const double want = expected[i][ids[i + 1].item<int64_t>()].item<double>();
      CHECK(logs[static_cast<size_t>(i)] == Approx(want).epsilon(1e-5));
      sum += logs[static_cast<size_t>(i)];
    }
    CHECK(mean_loss(session, ids_of(ids)) == Approx(-sum / 15).epsilon(1e-6));
  }
}

TEST_CASE("a text longer than the model's positions is cut into windows", "[inspect]") {
  Session session = stored_session(fixture("llama") + "/model.safetensors");
  REQUIRE(window_length(session) == 64);
  std::vector<int64_t> ids(200);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * 7 % 97);
  const auto logs = log_probabilities(session, ids);
  CHECK(logs.size() == 199);
  const std::vector<int64_t> second(ids.begin() + 64, ids.begin() + 129);
  const auto alone = log_probabilities(session, second);
  for (size_t i = 0; i < alone.size(); ++i) CHECK(logs[64 + i] == Approx(alone[i]).epsilon(1e-5));
}

TEST_CASE("texts that the model cannot take are refused", "[inspect]") {
  Session session = stored_session(fixture("llama") + "/model.safetensors");
  CHECK_THAT(error_of(session, "loss ABz"),
             Catch::Contains("token 2 of the text, \"z\", has the id 122"));
  CHECK_THAT(error_of(session, "loss A"), Catch::Contains("at least two"));
  CHECK_THAT(error_of(session, "logprob ''"), Catch::Contains("at least two"));
  CHECK_THAT(error_of(session, "generate ''"), Catch::Contains("the prompt has no token"));
  CHECK_THAT(error_of(session, "loss /no/such/file"), Catch::Contains("no such file"));
  CHECK_THAT(error_of(session, "generate A --tokens 0"), Catch::Contains("out of range"));
  CHECK_THAT(error_of(session, "generate A --temperature hot"), Catch::Contains("not a number"));
  CHECK_THAT(error_of(session, "set tokenizer /no/such.json"), Catch::Contains("/no/such.json"));
}

TEST_CASE("logprob stands beside its tokens", "[inspect]") {
  Session session = stored_session(fixture("llama") + "/model.safetensors");
  const Outcome outcome = execute(session, "logprob A BC");
  REQUIRE(outcome.ok());
  CHECK(outcome.result.json["tokens"] == Json{65, 32, 66, 67});
  REQUIRE(outcome.result.json["logprobs"].size() == 4);
  CHECK(outcome.result.json["logprobs"][0].is_null());
  double total = 0.0;
  for (size_t i = 1; i < 4; ++i) total += outcome.result.json["logprobs"][i].get<double>();
  CHECK(outcome.result.json["total"].get<double>() == Approx(total));
}

TEST_CASE("sampling follows the distribution", "[inspect]") {
  const at::Tensor logits =
      at::tensor({0.0, std::log(3.0), -100.0}, at::TensorOptions(at::kDouble));
  GenerateOptions options;
  options.temperature = 1.0;
  CHECK(sample(logits, options, 0.0) == 1);  // the most probable id covers [0, 3/4)
  CHECK(sample(logits, options, 0.7499) == 1);
  CHECK(sample(logits, options, 0.7501) == 0);
  CHECK(sample(logits, options, 0.9999999) == 0);
  options.top_k = 1;
  CHECK(sample(logits, options, 0.99) == 1);
  options = {.temperature = 0.0};
  CHECK(sample(logits, options, 0.99) == 1);
}

TEST_CASE("generation depends on seed and temperature alone", "[inspect]") {
  Session session = stored_session(fixture("llama") + "/model.safetensors");
  const auto tokens = [&](const std::string& input) {
    const Outcome outcome = execute(session, input);
    REQUIRE(outcome.ok());
    return outcome.result.json["tokens"];
  };
  const Json first = tokens("generate ABC --tokens 20 --seed 1");
  CHECK(first.size() == 20);
  CHECK(tokens("generate ABC --tokens 20 --seed 1") == first);
  CHECK(tokens("generate ABC --tokens 20 --seed 2") != first);
  CHECK(tokens("generate ABC --tokens 100 --temperature 0").size() ==
        100);  // more than the window of 64 tokens
}
