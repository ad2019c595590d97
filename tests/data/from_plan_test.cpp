#include "am/data/from_plan.h"

#include <catch2/catch.hpp>

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
  const SamplerOptions options = sampler_options(plan);
  CHECK(options.seq_len == 32);
  CHECK(options.seed == 7);
  CHECK_FALSE(options.shuffle);
}

TEST_CASE("the bytes tokenizer is no path") {
  CHECK(data_spec(plan_of(""), 256).tokenizer == "bytes");
}
