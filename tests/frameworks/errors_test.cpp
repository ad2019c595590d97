// Tests importers on invalid files: errors name the place in the file, and arbitrary bytes yield an
// error or a valid draft of a plan.
#include <catch2/catch.hpp>
#include <random>

#include "frameworks/exchange_support.h"

using namespace am;
using namespace am::frameworks;
using am::test::framework;
using am::test::valid;

namespace {

Diagnostics refused(std::string_view from, const std::string& text) {
  Diagnostics found;
  CHECK_FALSE(import_plan(framework(from), text, "file", found).has_value());
  REQUIRE_FALSE(found.ok());
  return found;
}

}  // namespace

TEST_CASE("importers say where a file is wrong", "[exchange]") {
  struct Case {
    const char* from;
    const char* text;
    const char* rule;
    int line;
    int column;
  };
  const std::vector<Case> cases = {
      {"torchtitan", "[parallelism]\ntensor_parallel_degree = 1000000000\n", "exchange.value", 2,
       26},
      {"torchtitan", "[parallelism]\ntensor_parallel_degree = \"2\"\n", "exchange.type", 2, 26},
      {"torchtitan", "[parallelism\n", "plan.syntax", 1, 13},
      {"torchtitan", "[training]\nseq_len = -5\n", "plan.range", 2, 11},
      {"torchtitan",
       "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"Magic\"\n",
       "exchange.value", 3, 30},
      {"torchtitan",
       "[parallelism]\ndata_parallel_shard_degree = 1048576\ntensor_parallel_degree = 1048576\n"
       "context_parallel_degree = 1048576\npipeline_parallel_degree = 1048576\n",
       "plan.range", 2, 30},
      {"megatron", "pretrain.py --tensor-model-parallel-size -2", "exchange.value", 1, 42},
      {"megatron", "pretrain.py --lr $LR", "exchange.syntax", 1, 18},
      {"megatron", "pretrain.py --lr 'a", "exchange.syntax", 1, 18},
      {"megatron", "a.py --x 1 | tee log", "exchange.syntax", 1, 12},
      {"megatron",
       "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 't*99999999|t'",
       "exchange.value", 1, 67},
      {"nemo-automodel", "distributed:\n  tp_size: 2\n   cp_size: 1\n", "exchange.syntax", 3, 11},
      {"nemo-automodel", "a: *x\nb: &x 1\n", "exchange.syntax", 1, 4},
      {"nemo-automodel", "a: &x {b: *x}\n", "exchange.syntax", 1, 11},
      {"nemo-automodel", "a: !!int 1\n", "exchange.syntax", 1, 4},
      {"nemo-automodel", "? [a]\n: 1\n", "exchange.syntax", 1, 3},
      {"nemo-automodel", "a: 1\n<<: 2\n", "exchange.syntax", 2, 1},
      {"nemo-automodel", "\xC3\xA4: 1\nb: {\xC3\xA4: !x 1}\n", "exchange.syntax", 2, 8},
      {"nemo-automodel", "a: 1\na: 2\n", "exchange.syntax", 2, 1},
      {"nemo-automodel", "a: 'x\n", "exchange.syntax", 1, 4},
      {"nemo-automodel", "distributed:\n  strategy: zero\n", "exchange.value", 2, 13},
      {"nemo-automodel", "distributed:\n\ttp_size: 2\n", "exchange.syntax", 2, 1},
      {"nemo-automodel", "- a\n- b\n", "exchange.syntax", 1, 1},
      {"nemo-automodel", "a: 1\n---\nb: 2\n", "exchange.syntax", 2, 1},
      {"accelerate", "distributed_type: TPU\n", "exchange.value", 1, 19},
      {"accelerate", "num_processes: 4\n", "exchange.value", 0, 0},
      {"accelerate",
       "distributed_type: FSDP\nnum_processes: 8\nparallelism_config:\n"
       "  parallelism_config_tp_size: 3\n",
       "exchange.value", 2, 16},
      {"deepspeed", "{\"train_batch_size\": 10,\n", "exchange.syntax", 2, 1},
      {"deepspeed", "[1]", "exchange.syntax", 1, 1},
      {"deepspeed",
       "{\"train_batch_size\": 10,\n \"train_micro_batch_size_per_gpu\": 3,\n"
       " \"gradient_accumulation_steps\": 1}",
       "exchange.value", 1, 22},
      {"deepspeed", "{\"zero_optimization\": {\"stage\": 4}}", "exchange.value", 1, 33},
      {"deepspeed", "{\"a\": 1\x01}", "exchange.syntax", 1, 8},
      {"accelerate", "distributed_type: \xFF\n", "exchange.syntax", 0, 0},
  };
  for (const Case& one : cases) {
    CAPTURE(one.from, one.text);
    const Diagnostics found = refused(one.from, one.text);
    const Diagnostic& first = found.items().front();
    CAPTURE(first.message);
    CHECK(first.rule == one.rule);
    CHECK(first.span.file == "file");
    CHECK(first.span.line == one.line);
    CHECK(first.span.column == one.column);
  }
}

TEST_CASE("importers take any bytes", "[exchange]") {
  std::vector<std::string> seeds;
  const test::ValidPlan plan =
      valid("[mesh]\nworld_size = 16\ntp_size = 2\npp_size = 2\n[train]\nglobal_batch_size = 16\n");
  for (const Framework& to : all_frameworks()) {
    seeds.push_back(export_plan(to, {plan.plan, plan.model, plan.layout}).text);
  }
  std::vector<std::string> texts = {"",
                                    "\n",
                                    "#",
                                    std::string(100000, '['),
                                    std::string(100000, '{'),
                                    std::string(50000, '-'),
                                    std::string(1, '\0'),
                                    "a:\n" + std::string(3000, ' ') + "b",
                                    "--",
                                    "--=",
                                    "--a.b.c.d=1",
                                    "---",
                                    "...",
                                    "\xEF\xBB\xBF"
                                    "a: 1",
                                    "? a",
                                    "a: [1, 2",
                                    "{\"a\": {\"b\": [",
                                    "'",
                                    "\"\\u12",
                                    "\"\\ud800\"",
                                    std::string(300000, 'x'),
                                    "a: " + std::string(2000, '['),
                                    "a: &a [&b [&c [x, *a], *b]]",
                                    "<<: [{a: 1}, [{b: 2}]]"};
  std::string deep;
  for (int i = 0; i < 400; ++i) deep += std::string(static_cast<size_t>(i), ' ') + "k:\n";
  texts.push_back(deep);
  std::mt19937 random(7);
  const auto below = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  const std::vector<std::string> pieces = {
      "1000000000", "-1",   "[",    "]",    "{", ":", "\"", "'",
      "\n",         " ",    "\t",   "\\",   "$", "*", "|",  "9223372036854775808",
      "1e999",      "null", "true", "\xC3", "=", "#", "--"};
  for (int i = 0; i < 1500; ++i) {
    std::string text = seeds[below(seeds.size())];
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text.erase(at, 1 + below(8));
          break;
        case 1:
          text.resize(at + 1);
          break;
        default:
          text.insert(at, pieces[below(pieces.size())]);
      }
    }
    texts.push_back(std::move(text));
  }
  int read = 0;
  for (const std::string& text : texts) {
    for (const Framework& from : all_frameworks()) {
      Diagnostics found;
      const auto in = import_plan(from, text, "file", found);
      CAPTURE(from.name, text.substr(0, 2000));
      REQUIRE(in.has_value() == found.ok());
      if (!in.has_value()) continue;
      ++read;
      // The result, written as TOML, is a valid draft of a plan.
      Diagnostics again;
      CHECK(config::parse_draft(in->toml(), "plan.toml", {}, again).has_value());
    }
  }
  CHECK(read > 100);
}
