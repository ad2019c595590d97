#include "am/inspect/completion.h"

#include <catch2/catch.hpp>

using namespace am::inspect;
using Strings = std::vector<std::string>;

namespace {

const SessionFacts kFacts = {"llama",
                             {"lm_head.weight", "model.layers.2.mlp.up_proj.weight",
                              "model.layers.10.mlp.up_proj.weight", "model.norm.weight"},
                             {"lm_head", "model", "model.layers", "model.layers.2",
                              "model.layers.2.mlp", "model.layers.10", "model.norm"}};

Strings offered(const char* line) { return complete(line, kFacts).candidates; }

}  // namespace

TEST_CASE("the first word completes to commands", "[inspect]") {
  CHECK(offered("unsh") == Strings{"unshard"});
  CHECK(offered("ls; unsh") == Strings{"unshard"});
  CHECK(complete("ls; unsh", kFacts).begin == 4);
  CHECK(offered("zzz").empty());
  CHECK(offered("").size() == commands().size());
}

TEST_CASE("parameters complete segment by segment, in natural order", "[inspect]") {
  CHECK(offered("show mo") == Strings{"model."});
  CHECK(offered("show model.") == Strings{"model.layers.", "model.norm."});
  CHECK(offered("show model.layers.") == Strings{"model.layers.2.", "model.layers.10."});
  CHECK(offered("show model.norm.") == Strings{"model.norm.weight"});
  CHECK(offered("show lm_head.weight") == Strings{"lm_head.weight"});
  CHECK(complete("show mo", kFacts).begin == 5);
}

TEST_CASE("modules are offered where they are taken", "[inspect]") {
  CHECK(offered("unshard model.layers.2") == Strings{"model.layers.2."});
  CHECK(offered("unshard model.n") == Strings{"model.norm", "model.norm."});
}

TEST_CASE("options, settings and help complete too", "[inspect]") {
  CHECK(offered("generate x --t") == Strings{"--temperature", "--tokens", "--top-k"});
  CHECK(offered("set d") == Strings{"digits", "dtype"});
  CHECK(offered("help resh") == Strings{"reshard"});
  CHECK(offered("nosuch mo").empty());
  CHECK(offered("loss 'mo").empty());
}

TEST_CASE("the common prefix of candidates", "[inspect]") {
  CHECK(common_prefix({"model.layers.", "model.lm"}) == "model.l");
  CHECK(common_prefix({"abc", "ab"}) == "ab");
  CHECK(common_prefix({"ab", "abc"}) == "ab");
  CHECK(common_prefix({"a", "b"}).empty());
  CHECK(common_prefix({}).empty());
}
