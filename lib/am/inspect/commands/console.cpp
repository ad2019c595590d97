// Defines the commands that the console runs itself, and `let`, which gives tensors a short name.
#include "am/inspect/console.h"

#include "am/base/home.h"
#include "am/base/text.h"
#include "am/inspect/commands/registry.h"
#include "am/inspect/pick.h"
#include "am/inspect/rows.h"

namespace am::inspect {
namespace {

Result run_mode(Console& console, const Arguments& arguments) {
  const std::string& name = arguments.words.front();
  const auto mode = parse_output_mode(name);
  if (!mode) throw Error(ErrorKind::kUsage, cat("mode `", name, "`: table, json, csv or md"));
  console.set_mode(*mode);
  Result result;
  result.json["mode"] = name;
  return result;
}

Result run_output(Console& console, const Arguments& arguments) {
  const bool ends = arguments.words.empty() || arguments.words.front() == "-";
  console.set_output(ends ? std::filesystem::path() : expand_home(arguments.words.front()),
                     arguments.has("--force"));
  Result result;
  result.json["output"] = ends ? Json(nullptr) : Json(arguments.words.front());
  return result;
}

Result run_source(Console& console, const Arguments& arguments) {
  return console.source(expand_home(arguments.words.front()));
}

Result run_report(Console& console, const Arguments& arguments) {
  return console.report(expand_home(arguments.words.front()), arguments.has("--force"));
}

bool is_alias_name(const std::string& name) {
  return !name.empty() && name.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
}

Result list_aliases(const Session& session) {
  Rows rows({{"name", {}, RowKind::kText}, {"stands_for", "names", RowKind::kText}});
  for (const auto& [name, words] : session.aliases()) {
    rows.add({{"name", name}, {"stands_for", join(words, " ")}});
  }
  Result result;
  rows.give(result, "aliases", session);
  return result;
}

Result run_let(Session& session, const Arguments& arguments) {
  if (arguments.words.empty()) return list_aliases(session);
  const std::string& name = arguments.words.front();
  if (arguments.words.size() < 3 || arguments.words[1] != "=" || !is_alias_name(name)) {
    throw Error(ErrorKind::kUsage, "`let` needs NAME = NAMES",
                "let w = model.norm.weight[0:4]; a name is letters, digits and _");
  }
  const std::vector<std::string> words(arguments.words.begin() + 2, arguments.words.end());
  // Full names of the tensors, with their slices. A name that `let` has defined is resolved here,
  // so that no name can refer to itself.
  std::vector<std::string> labels;
  for (const Picked& picked : pick_all(session, words)) labels.push_back(picked.label);
  Result result;
  result.json = {{"name", name}, {"stands_for", join(labels, " ")}, {"tensors", labels.size()}};
  session.set_alias(name, std::move(labels));
  return result;
}

constexpr Option kForceOption[] = {{"--force", "", "replace an existing file"}};

}  // namespace

const Command kLetCommand = {
    .name = "let",
    .operands = "[NAME = NAMES]",
    .summary = "define a short name for tensors or slices; without operands: list the short names",
    .help =
        "A short name may be sliced again. It names the tensors that NAMES matched when it was "
        "defined.\n"
        "Examples:  let w = model.layers.0.mlp.down_proj.weight[:, :8]\n"
        "           stats w w[0:4]",
    .json =
        "{name: string, stands_for: string, tensors: integer} | {aliases: [{name: string, "
        "stands_for: string}]}",
    .completes = Operand::kParameter,
    .max_words = Command::kAnyNumber,
    .run = run_let,
};
const Command kModeCommand = {
    .name = "mode",
    .operands = "table|json|csv|md",
    .summary = "set the format of the answers that follow",
    .help =
        "json: one object per line, with the fields that --json has; csv and md: the rows of an "
        "answer, or its fields.\n"
        "Example:  mode csv",
    .json = "{mode: string}",
    .keywords = "table json csv md",
    .min_words = 1,
    .max_words = 1,
    .at_console = run_mode,
};
const Command kOutputCommand = {
    .name = "output",
    .operands = "[FILE]",
    .summary = "write the answers that follow to a file; without FILE to the screen again",
    .help =
        "Each answer is appended; an existing file is replaced only with --force.\nExample:  mode "
        "csv; output stats.csv; stats",
    .json = "{output: string | null (null: the screen)}",
    .completes = Operand::kPath,
    .max_words = 1,
    .options = kForceOption,
    .at_console = run_output,
};
const Command kSourceCommand = {
    .name = "source",
    .operands = "FILE",
    .summary = "run the commands of a file, up to the first that fails",
    .help = "Example:  source checks.am",
    .json = "{results: [Answer] (one entry per command)}",
    .completes = Operand::kPath,
    .min_words = 1,
    .max_words = 1,
    .at_console = run_source,
};
const Command kReportCommand = {
    .name = "report",
    .operands = "FILE.html",
    .summary = "write all answers of this session, with pictures, to an HTML page",
    .help =
        "One file without scripts, fonts or links. The oldest answers are left out beyond 16 MiB.\n"
        "Example:  norms --by layer; hist lm_head.weight; report weights.html",
    .json = "{path: string, commands: integer}",
    .completes = Operand::kPath,
    .min_words = 1,
    .max_words = 1,
    .options = kForceOption,
    .at_console = run_report,
};

}  // namespace am::inspect
