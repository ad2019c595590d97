// Tests the console: pipes, output modes, files with commands, files that receive answers, `let`,
// and pictures.
#include "am/inspect/console.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/file.h"
#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
#include "am/inspect/completion.h"
#include "am/values/commands/functions.h"
#include "support/temporary_folder.h"
#include "values/changed_file.h"
#include "values/session_fixture.h"

namespace am::values::test {

using namespace inspect;

namespace {

Console console_of(const std::string& path) {
  return Console(std::make_unique<LocalInterpreter>(stored_session(path)), {});
}

Json answered(Console& console, const std::string& input) {
  const Outcome outcome = console.run(input);
  INFO(input << ": " << (outcome.error ? outcome.error->message : ""));
  REQUIRE_FALSE(outcome.error);
  return outcome.result.json;
}

std::string refused(Console& console, const std::string& input) {
  const Outcome outcome = console.run(input);
  INFO(input);
  REQUIRE(outcome.error);
  return outcome.error->message + " | " + outcome.error->hint;
}

}  // namespace

TEST_CASE("pipes sort, cut, search and count rows", "[inspect]") {
  Console console = console_of(fixture("llama") + kModel);
  const Json all = answered(console, "stats")["stats"];
  const Json sorted = answered(console, "stats | sort norm | head 3")["stats"];
  REQUIRE(sorted.size() == 3);
  double largest = 0.0;
  for (const Json& row : all) largest = std::max(largest, row["norm"].get<double>());
  CHECK(sorted[0]["norm"] == largest);
  CHECK(sorted[0]["norm"] >= sorted[1]["norm"]);
  CHECK(answered(console, "stats | sort norm --up | tail 1")["stats"][0] == sorted[0]);
  CHECK(answered(console, "ls | grep q_proj")["parameters"].size() == 2);
  CHECK(answered(console, "ls | grep *layers.0*")["parameters"].size() == 9);
  CHECK(answered(console, "ls *norm* | count")["parameters"] == Json::array({{{"count", 5}}}));
  CHECK(answered(console, "ls | head 1 | select bytes name")["parameters"] ==
        Json::array({{{"bytes", 12416}, {"name", "lm_head.weight"}}}));
  CHECK_THAT(console.run("ls | sort bytes | head 1").result.text, Catch::Contains("  12416\n"));
  CHECK(console.run("loss \"A | B\"").error->message.find("pipe") == std::string::npos);
}

TEST_CASE("a wrong pipe is refused before anything runs", "[inspect]") {
  Console console = console_of(fixture("llama") + kModel);
  CHECK_THAT(refused(console, "stats | sort nrom"), Catch::Contains("`norm`"));
  CHECK_THAT(refused(console, "stats | nan"), Catch::Contains("cannot follow a pipe"));
  CHECK_THAT(refused(console, "info | head"), Catch::Contains("prints no rows"));
  CHECK_THAT(refused(console, "ls |"), Catch::Contains("there is no command after `|`"));
  CHECK_THAT(refused(console, "ls | haed"), Catch::Contains("`head`"));
  CHECK_THAT(refused(console, "ls | less"), Catch::Contains("these can: plot, sort, "));
  CHECK_THAT(refused(console, "ls | foo"), Catch::Contains("these can: plot, sort, "));
  CHECK_THAT(refused(console, "head 3"), Catch::Contains("can only follow a pipe"));
  CHECK_THAT(refused(console, "ls | head x"), Catch::Contains("not a number of rows"));
}

TEST_CASE("words of a shell are refused with the command to use", "[inspect]") {
  Console console = console_of(fixture("llama") + kModel);
  CHECK_THAT(refused(console, "ls > x.txt"), Catch::Contains("`output FILE`"));
  CHECK_THAT(refused(console, "ls -l"), Catch::Contains("`help ls`"));
  CHECK_THAT(refused(console, "let 3 = lm_head.weight"), Catch::Contains("`let` needs NAME"));
}

TEST_CASE("modes write rows as CSV, Markdown and JSON", "[inspect]") {
  const TemporaryFolder temporary;
  write_tensors(temporary / "a.safetensors",
                {{"odd,\"name\"", at::ones({2, 3})}, {"w|x", at::full({1}, 0.1, at::kDouble)}});
  Console console = console_of((temporary / "a.safetensors").string());
  answered(console, "mode csv");
  CHECK(console.run("ls").result.text ==
        "name,shape,dtype,bytes\n\"odd,\"\"name\"\"\",\"[2, 3]\",float32,24\n"
        "w|x,[1],float64,8\n");
  CHECK_THAT(console.run("stats w|x").result.text, Catch::Contains("w|x,1,0.1,0.1,0.1,,0.1,0,0"));
  answered(console, "mode md");
  CHECK_THAT(console.run("ls").result.text,
             Catch::Contains("| name | shape | dtype | bytes |\n|---|---|---|---:|\n") &&
                 Catch::Contains("| w\\|x | [1] | float64 | 8 B |"));
  answered(console, "mode json");
  Diagnostics found;
  const auto json = parse_json(console.run("ls").result.text, "answer", found);
  REQUIRE(json);
  CHECK((*json)["parameters"].size() == 2);
  answered(console, "mode table");
  CHECK_THAT(console.run("ls").result.text, Catch::Contains("elements"));
  CHECK_THAT(refused(console, "mode xml"), Catch::Contains("table, json, csv or md"));
}

TEST_CASE("output takes whole answers and keeps what is there", "[inspect]") {
  const TemporaryFolder temporary;
  const std::string file = (temporary / "answers.txt").string();
  Console console = console_of(fixture("llama") + kModel);
  const std::string ls = console.run("ls").result.text;
  answered(console, "output " + file);
  CHECK(console.run("ls").result.text.empty());
  CHECK(read_file(file) == ls);
  refused(console, "ls nothing");
  CHECK(console.run("ls").result.text.empty());
  CHECK(read_file(file) == ls + ls);
  answered(console, "output");
  CHECK(console.run("ls").result.text == ls);
  CHECK_THAT(refused(console, "output " + file), Catch::Contains("exists already"));
  CHECK(read_file(file) == ls + ls);
  answered(console, "output " + file + " --force");
  CHECK(read_file(file).empty());
  CHECK_THAT(refused(console, "output " + (temporary / "no" / "x").string()),
             Catch::Contains("no/x"));
}

TEST_CASE("source runs a file and names the line that fails", "[inspect]") {
  const TemporaryFolder temporary;
  const std::string file = (temporary / "commands.am").string();
  Console console = console_of(fixture("llama") + kModel);
  write_text(file, "# two answers\nls norm\nstats norm | select name\n");
  const Json answer = answered(console, "source " + file);
  REQUIRE(answer["results"].size() == 2);
  CHECK(answer["results"][1]["stats"] == Json::array({{{"name", "model.norm.weight"}}}));
  write_text(file, "ls norm\n\nshow 'a\nb'\nls\n");
  CHECK_THAT(refused(console, "source " + file),
             Catch::Contains("commands.am:4: there is no parameter"));
  write_text(file, "source " + file + "\n");
  CHECK_THAT(refused(console, "source " + file), Catch::Contains("does a file run itself?"));
  write_text(file, "ls 'a\n");
  CHECK_THAT(refused(console, "source " + file), Catch::Contains("inside a quote"));
  write_text(file, "ls norm\nquit\nls\n");
  CHECK(console.run("source " + file).result.quit);
}

TEST_CASE("a report has every answer and its pictures", "[inspect]") {
  const TemporaryFolder temporary;
  const std::string file = (temporary / "report.html").string();
  Console console = console_of(fixture("llama") + kModel);
  answered(console, "ls *norm*");
  answered(console, "hist lm_head.weight");
  refused(console, "ls 'no <b> such'");
  const Json answer = answered(console, "report " + file);
  CHECK(answer["commands"] == 2);
  const std::string page = read_file(file);
  CHECK_THAT(page, Catch::Contains("hist lm_head.weight</h2>") && Catch::Contains("</svg>") &&
                       Catch::Contains("5 parameters, 160 elements") &&
                       Catch::EndsWith("</body></html>\n") && !Catch::Contains("<script"));
  CHECK_THAT(refused(console, "report " + file), Catch::Contains("exists already"));
  answered(console, "report " + file + " --force");
}

TEST_CASE("let names tensors and slices, which may be sliced again", "[inspect]") {
  Console console = console_of(fixture("llama") + kModel);
  answered(console, "let w = lm_head.weight[2:10, 4:20]");
  const at::Tensor part =
      checkpoint::read_all(*frameworks::open_tensor_source(fixture("llama") + kModel),
                           "lm_head.weight")
          .slice(0, 2, 10)
          .slice(1, 4, 20)
          .to(at::kDouble);
  const Json stats = answered(console, "stats w w[1:3] w[0] w[0][1:4]")["stats"];
  REQUIRE(stats.size() == 4);
  const std::vector<at::Tensor> parts = {part, part.slice(0, 1, 3), part[0],
                                         part[0].slice(0, 1, 4)};
  for (size_t i = 0; i < parts.size(); ++i) {
    INFO(i);
    CHECK(stats[i]["numel"] == parts[i].numel());
    CHECK(stats[i]["norm"].get<double>() == Approx(parts[i].norm().item<double>()).epsilon(1e-12));
  }
  answered(console, "let v = w[0:2]");
  answered(console, "let w = v");  // v refers to the old w, so w does not refer to itself
  CHECK(answered(console, "stats w")["stats"][0]["numel"] == 32);
  CHECK(answered(console, "let")["aliases"].size() == 2);
  answered(console, "let norms = *norm*");
  CHECK(answered(console, "ls norms")["parameters"].size() == 5);
  CHECK_THAT(refused(console, "let x = nothing"), Catch::Contains("nothing"));
  CHECK_THAT(refused(console, "let x w"), Catch::Contains("NAME = NAMES"));
  CHECK_THAT(refused(console, "stats w[0][0][0]"),
             Catch::Contains("the tensor has the shape [], but the slice has 1 index"));
}

TEST_CASE("heat shows means and maxima of blocks", "[inspect]") {
  const TemporaryFolder temporary;
  const at::Tensor values =
      at::arange(12 * 10, at::TensorOptions(at::kDouble)).sin().reshape({3, 4, 10});
  at::Tensor odd = values.clone();
  odd[2][3][9] = NAN;
  write_tensors(temporary / "a.safetensors", {{"w", values}, {"odd", odd}, {"v", values[0][0]}});
  Session session = stored_session((temporary / "a.safetensors").string());
  const at::Tensor matrix = values.reshape({4, 3, 5, 2});  // [row block, row, column block, column]
  const at::Tensor mean = matrix.abs().mean({1, 3});
  const at::Tensor most = matrix.abs().amax({1, 3});
  const Json by_mean = json_answer(session, "heat w --rows 4 --columns 5");
  const Json by_max = json_answer(session, "heat w --rows 4 --columns 5 --of max");
  const Json by_sign = json_answer(session, "heat w --rows 4 --columns 5 --of signed");
  REQUIRE(by_mean["cells"].size() == 4);
  for (size_t row = 0; row < 4; ++row) {
    for (size_t column = 0; column < 5; ++column) {
      const auto at = [&](const at::Tensor& of) {
        return of[static_cast<int64_t>(row)][static_cast<int64_t>(column)].item<double>();
      };
      CHECK(by_mean["cells"][row][column].get<double>() == Approx(at(mean)).epsilon(1e-12));
      CHECK(by_max["cells"][row][column].get<double>() == at(most));
      CHECK(by_sign["cells"][row][column].get<double>() ==
            Approx(at(matrix.mean({1, 3}))).margin(1e-12));
    }
  }
  CHECK(json_answer(session, "heat odd --rows 4 --columns 5")["cells"][3][4].is_null());
  CHECK(json_answer(session, "heat v")["cells"].size() == 1);
  CHECK(json_answer(session, "heat w[1:, 2, :5]")["cells"][0].size() == 5);
  CHECK_THAT(error_of(session, "heat w v"), Catch::Contains("names 2 tensors"));
  CHECK_THAT(error_of(session, "heat w --of min"), Catch::Contains("mean, max or signed"));

  const std::string svg = (temporary / "w.svg").string();
  json_answer(session, "heat w --svg " + svg);
  CHECK_THAT(read_file(svg), Catch::StartsWith("<svg") && Catch::EndsWith("</svg>\n"));
  CHECK_THAT(error_of(session, "heat w --svg " + svg), Catch::Contains("exists already"));
  json_answer(session, "plot --svg " + svg + " --force");
  CHECK_THAT(read_file(svg), Catch::Contains("rms by tensor"));
}

TEST_CASE("ranks draw what one process draws", "[inspect]") {
  const std::vector<std::string> questions = {"heat lm_head.weight --rows 7 --columns 5",
                                              "heat lm_head.weight[3:50, 2:] --of max",
                                              "plot *norm* --of norm"};
  const auto outcomes =
      run_on_ranks(4, plan_text("llama", "tp_size = 2\ndp_size = 2", kPlainFsdp2), questions);
  Session at_rest = stored_session(fixture("llama") + kModel);
  const auto flat = [](const Json& answer) { return answer.flatten(); };
  for (size_t i = 0; i < questions.size(); ++i) {
    INFO(questions[i]);
    REQUIRE(outcomes[i].ok());
    const Json found = flat(outcomes[i].result.json);
    const Json expected = flat(json_answer(at_rest, questions[i]));
    REQUIRE(found.size() == expected.size());
    for (const auto& [key, value] : found.items()) {
      INFO(key);
      if (value.is_number_float()) {
        CHECK(value.get<double>() == Approx(expected[key].get<double>()).epsilon(1e-12));
      } else {
        CHECK(value == expected[key]);
      }
    }
  }
}

TEST_CASE("every command has a summary, help with an example, and is completed", "[inspect]") {
  SessionFacts facts;
  for (const Command* command : commands()) {
    INFO(command->name);
    CHECK(command->reads_values() == (value_function(command->name) != nullptr));
    CHECK_FALSE(command->summary.empty());
    const bool takes_words = command->words.most > 0;
    CHECK((!takes_words || command->help.find("Example") != std::string_view::npos));
    const std::string name(command->name);
    CHECK_THAT(complete(name.substr(0, name.size() - 1), facts).candidates,
               Catch::VectorContains(name));
  }
  CHECK_THAT(complete("ls | so", facts).candidates, Catch::VectorContains(std::string("sort")));
}

}  // namespace am::values::test
