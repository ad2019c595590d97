#include "am/data/from_plan.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"

using namespace am;
using namespace am::data;

namespace {

config::Plan plan_of(const std::string& text) {
  Diagnostics found;
  const auto plan =
      config::parse_plan("[model]\npath = \"m\"\n" + text, "/plans/p.toml", {}, found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.message);
  REQUIRE(plan);
  return *plan;
}

}  // namespace

TEST_CASE("the plan's data section becomes a data spec") {
  const config::Plan plan = plan_of(
      "[train]\nseq_len = 32\nseed = 7\n"
      "[data]\nkind = \"tokens\"\npath = [\"a.bin\", \"/b.bin\"]\nshuffle = false\n"
      "tokenizer = \"t/tokenizer.json\"\ntoken_dtype = \"uint32\"\n");
  const DataSpec spec = data_spec(plan, 1000);
  CHECK(spec.kind == "tokens");
  CHECK(spec.paths == std::vector<std::filesystem::path>{"/plans/a.bin", "/b.bin"});
  CHECK(spec.tokenizer == "/plans/t/tokenizer.json");
  CHECK(spec.token_dtype == "uint32");
  CHECK(spec.vocab_size == 1000);
  CHECK(spec.seed == 7);
}

TEST_CASE("batches have the plan's length and order") {
  const config::Plan plan =
      plan_of("[train]\nseq_len = 32\nseed = 7\n[data]\nkind = \"synthetic\"\nshuffle = false\n");
  const BatchReader reader = open_batches(plan, 1000);
  CHECK(reader.read_batch(0, 2).inputs.size() == 64);
  CHECK(reader.sampler().sample(5) == 5);
}

TEST_CASE("the bytes tokenizer is no path") {
  CHECK(data_spec(plan_of(""), 256).tokenizer == "bytes");
}

TEST_CASE("eod_token is an id, or a token by its name") {
  CHECK_FALSE(eod_token_id(plan_of("")));
  CHECK(eod_token_id(plan_of("[data]\neod_token = 7\n")) == 7);
  const std::string tokenizer =
      cat("[data]\ntokenizer = \"", AM_TEST_DATA, "/tokenizers/gpt2.json\"\neod_token = ");
  CHECK(eod_token_id(plan_of(tokenizer + "\"<|endoftext|>\"\n")) == 0);
  CHECK(data_spec(plan_of(tokenizer + "\"<|end|>\"\n"), 600).eod_token == 520);
  try {
    eod_token_id(plan_of(tokenizer + "\"<|end_of_text|>\"\n"));
    FAIL("found");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kPlan);
    CHECK_THAT(error.what(), Catch::EndsWith("has no token \"<|end_of_text|>\""));
    CHECK(error.hint() == "did you mean \"<|endoftext|>\"?");
  }
}

TEST_CASE("an eod_token that is neither id nor name is refused") {
  const auto refused = [](const std::string& value) {
    Diagnostics found;
    config::parse_plan("[model]\npath = \"m\"\n[data]\neod_token = " + value + "\n", "/p.toml", {},
                       found);
    REQUIRE(found.items().size() == 1);
    return found.items()[0].message;
  };
  CHECK(refused("-1") == "data.eod_token = -1 is out of range");
  CHECK(refused("true") == "data.eod_token is a boolean, not an id or a token in quotes");
  CHECK(refused("\"\"") == "data.eod_token is empty");
}
