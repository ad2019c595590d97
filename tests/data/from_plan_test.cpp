#include "am/data/from_plan.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

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
  const DataSpec spec = data_specs(plan, 1000).front();
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
  CHECK(reader.sampler().draw(5) == Draw{0, 5});
}

TEST_CASE("the tokenizer is the model folder's, bytes, or a path") {
  CHECK(tokenizer_name(plan_of("")) == "bytes");  // the model folder contains no tokenizer
  CHECK(tokenizer_name(plan_of("[data]\ntokenizer = \"bytes\"\n")) == "bytes");
  CHECK(tokenizer_name(plan_of("[data]\ntokenizer = \"t\"\n")) == "/plans/t");
  const TemporaryFolder folder;
  write_file_atomically(folder / "tokenizer.json", "{}");
  config::Plan plan = plan_of("");
  plan.model.path = folder.path().string();
  CHECK(tokenizer_name(plan) == (folder / "tokenizer.json").string());
  plan.model.path = (folder / "config.json").string();
  CHECK(tokenizer_name(plan) == (folder / "tokenizer.json").string());
  plan.data.tokenizer = "bytes";
  CHECK(tokenizer_name(plan) == "bytes");
}

TEST_CASE("sources of a mixture are read by their own kinds") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a.txt", std::string(90, 'a'));
  write_file_atomically(folder / "b.jsonl", "{\"prompt\": \"b\", \"completion\": \"cd\"}\n");
  config::Plan plan = plan_of(
      "[train]\nseq_len = 8\n[data]\ntokenizer = \"bytes\"\n"
      "[[data.source]]\npath = \"a.txt\"\nkind = \"text\"\nweight = 3\n"
      "[[data.source]]\npath = \"b.jsonl\"\nkind = \"chat\"\nepochs = 1\n");
  plan.file = (folder / "p.toml").string();
  const BatchReader reader = open_batches(plan, 256);
  CHECK(reader.tokens() == 93);
  CHECK(reader.counted_labels(0, 8) == 7 * 8 + 2);
  CHECK(reader.descriptions().size() == 2);
  CHECK_THAT(reader.descriptions()[0], Catch::StartsWith("75.0 % text: "));
  CHECK_THAT(reader.descriptions()[1], Catch::EndsWith(", at most 1 epochs"));
  const std::string fingerprint = reader.fingerprint();
  plan.data.sources[0].weight = 2;
  CHECK(open_batches(plan, 256).fingerprint() != fingerprint);
}

TEST_CASE("validation data are read once and in order") {
  const config::Plan plan = plan_of(
      "[train]\nseed = 4\nepochs = 3\n[data]\nkind = \"tokens\"\npath = \"t\"\n"
      "[validation]\nevery = 1\npath = \"v\"\n");
  const config::Plan validation = with_validation_data(plan);
  CHECK(validation.data.path == std::vector<std::string>{"v"});
  CHECK_FALSE(validation.data.shuffle);
  CHECK(validation.train.seed == 5);
  CHECK(validation.train.epochs == 1);
}

TEST_CASE("eod_token is an id, or a token by its name") {
  CHECK_FALSE(eod_token_id(plan_of("")));
  CHECK(eod_token_id(plan_of("[data]\neod_token = 7\n")) == 7);
  const std::string tokenizer =
      cat("[data]\ntokenizer = \"", am::test::kDataFolder, "/tokenizers/gpt2.json\"\neod_token = ");
  CHECK(eod_token_id(plan_of(tokenizer + "\"<|endoftext|>\"\n")) == 0);
  CHECK(data_specs(plan_of(tokenizer + "\"<|end|>\"\n"), 600).front().eod_token == 520);
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
