#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/config/plan.h"

using namespace am;
using namespace am::config;

namespace {

std::optional<Plan> parse(const std::string& text, Diagnostics& found) {
  return parse_plan(text, "dir/p.toml", {}, found);
}

Plan good(const std::string& text) {
  Diagnostics found;
  auto plan = parse(text, found);
  for (const Diagnostic& each : found.items()) UNSCOPED_INFO(each.message);
  REQUIRE(plan);
  return *plan;
}

// Returns the only error of a plan that consists of a model and this text.
Diagnostic only_error(const std::string& text) {
  Diagnostics found;
  CHECK_FALSE(parse("model.path = \"m\"\n" + text, found));
  for (const Diagnostic& each : found.items()) UNSCOPED_INFO(each.message);
  REQUIRE(found.items().size() == 1);
  return found.items()[0];
}

std::string place(const Span& span) {
  return cat(span.file, ":", span.line, ":", span.column, "+", span.length);
}

const std::string kModel = "[model]\npath = \"m\"\n";

}  // namespace

TEST_CASE("a plan of one key has the defaults of INTERFACE") {
  const Plan plan = good(kModel);
  CHECK(plan.model.path == "m");
  CHECK(plan.model.weights == "auto");
  CHECK(plan.mesh.tp_size == 1);
  CHECK(plan.pipeline.schedule == "1f1b");
  CHECK(plan.train.max_grad_norm == 1.0);
  CHECK(plan.optimizer.betas == std::array{0.9, 0.999});
  CHECK(plan.optimizer.eps == 1e-8);
  CHECK(plan.runtime.timeout_minutes == 10.0);
  CHECK(plan.runtime.dump_minutes == 0.0);
  const auto& fsdp2 = std::get<FSDP2Config>(plan.strategy);
  CHECK(fsdp2.mp_policy.param_dtype == "bfloat16");
  CHECK(fsdp2.mp_policy.reduce_dtype == "float32");
  CHECK_FALSE(fsdp2.mp_policy.output_dtype);
  CHECK_FALSE(fsdp2.mp_policy.cast_forward_inputs);
  CHECK_FALSE(fsdp2.backend);
  CHECK_FALSE(fsdp2.offload_policy);
  CHECK(plan.file == "dir/p.toml");
  CHECK(plan.resolve("m") == "dir/m");
  CHECK(plan.resolve("../m") == "m");
  CHECK(plan.resolve("/m") == "/m");
}

TEST_CASE("values of every kind arrive") {
  const Plan plan = good(kModel + R"(
dtype = "torch.bfloat16"
[mesh]
tp_size = 2
[strategy]
name = "fsdp2"
mp_policy = { param_dtype = "fp32", output_dtype = "none", cast_forward_inputs = false }
offload_policy = {}
autocast_dtype = "bf16"
activation_checkpointing = true
reshard_after_forward = 4
backend = "gloo"
[pipeline]
split_points = [4, 8]
[optimizer]
lr = 1
betas = [0.9, 0.95]
[data]
kind = "tokens"
path = ["a.bin", "b.bin"]
)");
  CHECK(plan.model.dtype == "bfloat16");
  CHECK(plan.optimizer.lr == 1.0);
  CHECK(plan.optimizer.betas == std::array{0.9, 0.95});
  CHECK(plan.pipeline.split_points == std::vector<int64_t>{4, 8});
  CHECK(plan.data.path == std::vector<std::string>{"a.bin", "b.bin"});
  const auto& fsdp2 = std::get<FSDP2Config>(plan.strategy);
  CHECK(fsdp2.mp_policy.param_dtype == "float32");
  CHECK(fsdp2.mp_policy.reduce_dtype == "float32");  // omitted: keeps the default
  CHECK_FALSE(fsdp2.mp_policy.output_dtype);
  CHECK_FALSE(fsdp2.mp_policy.cast_forward_inputs);
  REQUIRE(fsdp2.offload_policy);
  CHECK(fsdp2.offload_policy->pin_memory);
  CHECK(fsdp2.autocast_dtype == "bfloat16");
  CHECK(fsdp2.activation_checkpointing == ActivationCheckpointing::kFull);
  CHECK(std::get<int64_t>(*fsdp2.reshard_after_forward) == 4);
  CHECK(fsdp2.backend == "gloo");
}

TEST_CASE("the spans of what was written are kept") {
  const Plan plan = good(kModel + "[mesh]\ntp_size = 2\n[pipeline]\nsplit_points = [4, 18]\n");
  CHECK(place(plan.span("mesh.tp_size")) == "dir/p.toml:4:11+1");
  CHECK(plan.span("mesh.tp_size").source == "tp_size = 2");
  CHECK(place(plan.span("mesh.cp_size")) == "dir/p.toml:3:2+4");  // the header of its section
  CHECK(place(plan.span("pipeline.split_points.1")) == "dir/p.toml:6:20+2");
  CHECK(plan.span("data.path").line == 0);
  CHECK(plan.span("data.path").file == "dir/p.toml");
  CHECK(plan.given("mesh.tp_size"));
  CHECK_FALSE(plan.given("mesh.cp_size"));
}

TEST_CASE("a syntax error has its place and message") {
  const Diagnostic error = only_error("[mesh\n");
  CHECK(error.rule == "plan.syntax");
  CHECK(place(error.span) == "dir/p.toml:2:6+1");
  CHECK(error.span.source == "[mesh");
  CHECK(only_error("[mesh]\ntp_size = 1\ntp_size = 1\n").help.find("once") != std::string::npos);
  CHECK(only_error("a = b\n").help == "write text in quotes");
  CHECK(only_error("a = \"\xff\"\n").rule == "plan.syntax");
  CHECK(only_error("x = \"" + std::string(3, '\0') + "\"").rule == "plan.syntax");
}

TEST_CASE("text that nests without end is an error and no crash") {
  CHECK(only_error("a = " + std::string(100000, '[')).rule == "plan.syntax");
  CHECK(only_error("a = " + std::string(100000, '{')).rule == "plan.syntax");
  std::string key = "a";
  for (int i = 0; i < 100000; ++i) key += ".a";
  CHECK(only_error(key + " = 1\n").rule == "plan.syntax");
  CHECK(only_error("[" + key + "]\n").rule == "plan.syntax");
  CHECK(only_error("x = { " + key + " = 1 }\n").rule == "plan.syntax");
  CHECK(only_error("x = \"#\"\n" + key + " = 1\n").rule == "plan.syntax");
  const auto rule_of = [](size_t parts) {
    return only_error(cat(join(std::vector<std::string>(parts, "a"), "."), " = 1\n")).rule;
  };
  CHECK(rule_of(64) == "plan.section");
  CHECK(rule_of(65) == "plan.syntax");
  // Dots in texts and comments do not nest anything.
  const std::string dots(100, '.');
  CHECK(good("[model]\npath = \"\"\"\n" + dots + "\n\"\"\"  # " + dots + "\n").model.path ==
        dots + "\n");
}

TEST_CASE("letters in a value that is none") {
  // A quote in the middle of a value does not begin a string.
  const am::Diagnostic error = only_error("every = 22++'\xEF\xBB\x9F'\n");
  CHECK(error.rule == "plan.syntax");
  CHECK(error.span.column == 14);
  CHECK(only_error("x = [ 1'\xC3\xA4' ]\n").rule == "plan.syntax");
  CHECK(only_error("x = \"\"\"a\\\xEF\xBB\xB5\"\"\"\n").rule == "plan.syntax");
  CHECK(only_error("x = \"\\\xC3\xA4\"\n").rule == "plan.syntax");
  CHECK(only_error("ts = [1_-000000000[\":\\+\xC6\x9A\"0\n").rule == "plan.syntax");
}

TEST_CASE("headers that the TOML library asserts about") {
  for (const char* line : {"[=]", "[ .a]", "[#", "[", "[\n", "[ \n]"}) {
    INFO(line);
    const am::Diagnostic error = only_error(am::cat("[mesh]\nworld_size = 2\n", line));
    CHECK(error.rule == "plan.syntax");
    CHECK(error.span.line == 4);  // only_error() adds model.path as line 1
  }
}

TEST_CASE("unknown sections and keys name the nearest known one") {
  Diagnostic error = only_error("[trian]\nx = 1\n");
  CHECK(error.rule == "plan.section");
  CHECK(error.help == "did you mean [train]?");
  CHECK(only_error("[xyzzy]\n").help.find("sections: model, mesh") == 0);

  error = only_error("[mesh]\ntp_szie = 2\n");
  CHECK(error.rule == "plan.key");
  CHECK(place(error.span) == "dir/p.toml:3:1+7");
  CHECK(error.message == "unknown key \"tp_szie\" in [mesh]");
  CHECK(error.help == "did you mean \"tp_size\"?");
  CHECK(only_error("[mesh]\nlr = 2\n").help == "it is a key of [optimizer]");
  CHECK(only_error("[mesh]\npath = 2\n").help == "it is a key of [model], [data], [validation]");
  CHECK(only_error("[mesh]\nweight_dekay = 2\n").help ==
        "did you mean \"weight_decay\" of [optimizer]?");
  CHECK(only_error("[optimizer]\nlearning_rate = 2\n").help ==
        "it is called lr here, in [optimizer]");
  CHECK(only_error("[metrics]\nxyzzyqwert = 2\n").help ==
        "keys of [metrics]: every, tensorboard, loggers, prometheus, trace, spike_sigma, "
        "spike_window, straggler_seconds");
}

TEST_CASE("keys outside of sections, and sections that are none") {
  Diagnostics found;
  CHECK_FALSE(parse("tp_size = 2\nmesh = 3\n" + kModel, found));
  REQUIRE(found.items().size() == 2);
  CHECK(found.items()[0].rule == "plan.key");
  CHECK(found.items()[0].help == "it is a key of [mesh]");
  CHECK(found.items()[1].rule == "plan.type");
  CHECK(found.items()[1].message == "[mesh] is a section, not an integer");
  CHECK(only_error("[[mesh]]\ntp_size = 1\n").message == "[mesh] is a section, not an array");
}

TEST_CASE("wrong types say what is there and how to write it") {
  const auto check = [](const char* text, const char* message, const char* help) {
    const Diagnostic error = only_error(text);
    CHECK(error.rule == "plan.type");
    CHECK(error.message == message);
    CHECK(error.help == help);
  };
  check("[mesh]\ntp_size = \"2\"", "mesh.tp_size is text, not an integer",
        "write 2 without quotes");
  check("[mesh]\ntp_size = 2.0", "mesh.tp_size is a decimal number, not an integer", "write 2");
  check("[mesh]\ntp_size = [2]", "mesh.tp_size is an array, not an integer", "legal: 1 to 1048576");
  check("[train]\nmax_grad_norm = \"1e-3\"", "train.max_grad_norm is text, not a number",
        "write 1e-3 without quotes");
  check("[checkpoint]\nasync = 1", "checkpoint.async is an integer, not true or false",
        "legal: true or false");
  check("[checkpoint]\ndir = 7", "checkpoint.dir is an integer, not text in quotes", "write \"7\"");
  check("[optimizer]\nname = 2020-01-01", "optimizer.name is a date or time, not text in quotes",
        "legal: \"adamw\", \"adam\", \"sgd\" or \"muon\"");
  check("[optimizer]\nbetas = 0.9", "optimizer.betas is a decimal number, not an array",
        "legal: array of two, each a number >= 0 and < 1");
  check("[data]\npath = 3",
        "data.path is an integer, not text in quotes or an array of texts in quotes",
        "write \"3\"");
  check("[data]\npath = [\"a\", 3]", "data.path.1 is an integer, not text in quotes",
        "write \"3\"");
  check("[strategy]\nmp_policy = \"bf16\"", "strategy.mp_policy is text, not a table",
        "legal: { param_dtype, reduce_dtype, output_dtype, cast_forward_inputs }");
}

TEST_CASE("numbers out of range and not finite") {
  const auto check = [](const char* text, const char* message) {
    const Diagnostic error = only_error(text);
    CHECK(error.rule == "plan.range");
    CHECK(error.message == message);
    CHECK_FALSE(error.help.empty());
  };
  check("[mesh]\ntp_size = 0", "mesh.tp_size = 0 is out of range");
  check("[mesh]\ntp_size = -9223372036854775808",
        "mesh.tp_size = -9223372036854775808 is out of range");
  check("[train]\nglobal_batch_size = 9223372036854775807",
        "train.global_batch_size = 9223372036854775807 is out of range");
  check("[optimizer]\nlr = -0.1", "optimizer.lr = -0.1 is out of range");
  check("[optimizer]\nlr = nan", "optimizer.lr = nan is not a finite number");
  check("[optimizer]\nlr = inf", "optimizer.lr = inf is not a finite number");
  check("[optimizer]\nbetas = [0.9, 1.0]", "optimizer.betas.1 = 1 is out of range");
  check("[strategy]\nreshard_after_forward = 0",
        "strategy.reshard_after_forward = 0 is out of range");
  check("[strategy]\nreshard_after_forward = 1",
        "strategy.reshard_after_forward = 1 is out of range");
  check("[strategy]\nname = \"megatron_fsdp\"\nzero_dp_strategy = 4",
        "strategy.zero_dp_strategy = 4 is out of range");
}

TEST_CASE("names that are not legal, and texts that are empty") {
  const auto check = [](const char* text, const char* message, const char* help) {
    const Diagnostic error = only_error(text);
    CHECK(error.rule == "plan.value");
    CHECK(error.message == message);
    CHECK(error.help == help);
  };
  check("model.dtype = \"floatt32\"", "model.dtype = \"floatt32\" is not known",
        "did you mean \"float32\"? legal: \"float32\", \"bfloat16\" or \"float16\"");
  check("[scheduler]\nname = \"step\"", "scheduler.name = \"step\" is not known",
        "legal: \"constant\", \"cosine\", \"linear\" or \"wsd\"");
  check("[data]\ntokenizer = \" \"", "data.tokenizer is empty",
        "legal: \"auto\", \"bytes\" or a path");
  check("[data]\npath = [\"\"]", "data.path.0 is empty", "legal: path or array of paths");
  check("[optimizer]\nbetas = [0.9]", "optimizer.betas has 1 items",
        "legal: an array of two numbers");
  check("[strategy]\ntp_plan = {}", "strategy.tp_plan is an empty table",
        "legal: \"auto\", a file, or pattern = style");
}

TEST_CASE("what is required is asked for, at the nearest place") {
  Diagnostics found;
  CHECK_FALSE(parse("", found));
  REQUIRE(found.items().size() == 1);
  CHECK(found.items()[0].rule == "plan.required");
  CHECK(found.items()[0].span.file == "dir/p.toml");
  CHECK(found.items()[0].span.line == 0);

  Diagnostics in_section;
  CHECK_FALSE(parse("[model]\nseed = 1\n", in_section));
  REQUIRE(in_section.items().size() == 1);
  CHECK(place(in_section.items()[0].span) == "dir/p.toml:1:2+5");

  const Diagnostic error = only_error("[data]\nkind = \"text\"\n");
  CHECK(error.rule == "plan.required");
  CHECK(error.message == "data.kind = \"text\" needs data.path");
  CHECK(place(error.span) == "dir/p.toml:3:8+6");
}

TEST_CASE("all violations are reported in one run, in the file's order") {
  Diagnostics found;
  CHECK_FALSE(parse("[optimizer]\nlr = -1\n[mesh]\ntp = 1\npp_size = 0\n[mash]\n", found));
  std::vector<int64_t> lines;
  for (const Diagnostic& each : found.items()) lines.push_back(each.span.line);
  CHECK(lines == std::vector<int64_t>{0, 2, 4, 5, 6});
}

TEST_CASE("what was found before stays in front") {
  Diagnostics found;
  found.error("x", {"z.toml", 9, 9, 1, ""}, "earlier");
  CHECK(parse(kModel, found));  // a valid plan
  CHECK(found.items().size() == 1);
  CHECK(found.items()[0].message == "earlier");
}

TEST_CASE("a file that cannot be read is a fault, one that is huge no plan") {
  Diagnostics found;
  CHECK_THROWS_AS(load_plan("/no/such/plan.toml", {}, found), Error);
  CHECK_THROWS_AS(load_plan("/tmp", {}, found), Error);
}

TEST_CASE("files with carriage returns, comments and other characters have true columns") {
  const Diagnostic error = only_error("# größe\r\n[data]\r\ntokenizer = \"ä\" \r\nxyz = 1\r\n");
  CHECK(error.span.source == "xyz = 1");
  const Diagnostic behind = only_error("[strategy]\ntp_plan = { \"ä\" = \"x\", \"b\" = 1 }\n");
  CHECK(place(behind.span) == "dir/p.toml:3:30+1");
}

TEST_CASE("a draft holds what could be read, with all errors reported") {
  Diagnostics found;
  const auto draft = parse_draft("mesh.tp_size = 4\nmesh.pp_size = \"x\"\ntrain.seq_len = 64\n",
                                 "p.toml", {}, found);
  REQUIRE(draft);
  CHECK(found.errors() == 2);  // mesh.pp_size, and model.path is missing
  CHECK(draft->mesh.tp_size == 4);
  CHECK(draft->mesh.pp_size == 1);
  CHECK(draft->train.seq_len == 64);

  Diagnostics syntax;
  CHECK_FALSE(parse_draft("[mesh\n", "p.toml", {}, syntax));
  CHECK(syntax.errors() == 1);
}
