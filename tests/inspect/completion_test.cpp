#include "am/inspect/completion.h"

#include <catch2/catch.hpp>
#include <set>
#include <string_view>

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
  std::set<std::string_view> names;
  for (const Command* command : commands()) names.insert(command->name);
  CHECK(offered("").size() == names.size());
  CHECK(offered("ls | ") ==
        Strings{"count", "grep", "head", "plot", "select", "sort", "tail", "where"});
}

TEST_CASE("fields of the rows complete behind a pipe", "[inspect]") {
  CHECK(offered("stats | sort n") == Strings{"name", "nan", "norm", "numel"});
  CHECK(offered("stats *norm* | head 3 | where no") == Strings{"norm"});
  CHECK(offered("ls | select ") == Strings{"bytes", "dtype", "name", "shape"});
  CHECK(offered("stats | plot m") == Strings{"max", "mean", "min"});
  // The fields of rows inside of rows complete too.
  CHECK(offered("collectives 0 | sort se") == Strings{"seconds_ago", "sequence"});
  CHECK(offered("info | sort ").empty());
  CHECK(offered("nosuch | sort ").empty());
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
  CHECK(offered("generate x --t") == Strings{"--temperature", "--tokens", "--top-k", "--top-p"});
  CHECK(offered("set d") == Strings{"digits", "dtype"});
  CHECK(offered("mode t") == Strings{"table"});
  CHECK(offered("watch grad") == Strings{"grad_norm"});
  CHECK(offered("help resh") == Strings{"reshard"});
  CHECK(offered("nosuch mo").empty());
  CHECK(offered("loss 'mo").empty());
}

TEST_CASE("values of options complete where they are named", "[inspect]") {
  CHECK(offered("top --by ") == Strings{"bytes", "max", "norm", "rms", "update"});
  CHECK(offered("top 5 --by=n") == Strings{"norm"});
  CHECK(complete("top 5 --by=n", kFacts).begin == 11);
  CHECK(offered("heat model.norm.weight --of s") == Strings{"signed"});
  CHECK(offered("heat model.norm.weight --rows ")
            .empty());  // the value is a number, so there is no candidate
  CHECK(offered("top --by norm lm") == Strings{"lm_head", "lm_head."});
  CHECK(offered("nan --strict lm") ==
        Strings{"lm_head", "lm_head."});  // `--strict` is a flag, so `lm` is an operand
}

TEST_CASE("expressions complete inside of their brackets", "[inspect]") {
  CHECK(offered("calc nor") == Strings{"norm("});
  CHECK(offered("calc norm(model.no") == Strings{"model.norm."});
  CHECK(complete("calc norm(model.no", kFacts).begin == 10);
  CHECK(offered("calc norm(lm_head.weight) / ma") == Strings{"max("});
  CHECK(offered("calc norm(lm_head.weight)/norm(mo") == Strings{"model."});
  CHECK(complete("diff runs(1)/st", kFacts).begin ==
        5);  // diff has path operands, in which `(` is an ordinary character
}

TEST_CASE("a hint says what may follow", "[inspect]") {
  CHECK(hint("", 80).empty());
  CHECK(hint("norms", 80).empty());  // the name may continue
  CHECK(hint("norms ", 80) == "[NAMES] [--by parameter|layer]");
  CHECK(hint("ls; norms model.norm.weight", 80) == "[NAMES] [--by parameter|layer]");
  CHECK(hint("norms ", 20) == "[NAMES]");
  CHECK(hint("norms ", 4).empty());
  CHECK(hint("ls | sort ", 80) == "KEY [--up]");
  CHECK(hint("norms --by ", 80) == "parameter|layer: one row per parameter, or per layer");
  CHECK(hint("norms --by ", 20) == "parameter|layer");
  CHECK(hint("norms --by ", 10).empty());
  CHECK(hint("info ", 80).empty());
  CHECK(hint("loss 'what is ", 80).empty());
  CHECK(hint("nosuch ", 80).empty());
}

TEST_CASE("the common prefix of candidates", "[inspect]") {
  CHECK(common_prefix({"model.layers.", "model.lm"}) == "model.l");
  CHECK(common_prefix({"abc", "ab"}) == "ab");
  CHECK(common_prefix({"ab", "abc"}) == "ab");
  CHECK(common_prefix({"a", "b"}).empty());
  CHECK(common_prefix({}).empty());
}
