// am-run prepare PLAN tokenises the data of a plan. am-run show-batch PLAN prints rows of a step's
// global batch.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/batch.h"
#include "am/data/from_plan.h"
#include "am/data/paths.h"
#include "am/data/prepared.h"
#include "am/data/tokenizer.h"
#include "am/term/printable.h"
#include "common/command_line.h"
#include "common/output.h"
#include "job.h"
#include "job/options.h"
#include "job/plan_file.h"

namespace am_run {

namespace {

using namespace am;

constexpr const char* kPrepareDescription =
    "Tokenises a plan's text and conversations on all cores and writes the tokens to data.prepared "
    "(Megatron's .bin and .idx), where jobs find them.\n\n"
    "Examples:\n"
    "  am-run prepare plan.toml\n"
    "  am-run prepare plan.toml --set data.prepared='\"/data/tokens\"' --json";
constexpr const char* kShowDescription =
    "Prints rows of a step's global batch as training reads them: their text, and which tokens the "
    "loss counts.\n\n"
    "Examples:\n"
    "  am-run show-batch plan.toml\n"
    "  am-run show-batch plan.toml --step 100 --rows 1 --json";

struct DataOptions {
  Options job;
  int64_t step = 1;
  int64_t rows = 4;
};

// ---- prepare ------------------------------------------------------------------------------------

int prepare(const DataOptions& options, const job::Job& job) {
  if (job.plan.data.prepared == "none") {
    throw Error(ErrorKind::kPlan, "data.prepared = \"none\" names no folder for the tokens",
                "remove the key, or name a folder");
  }
  std::vector<data::DataSpec> specs = data::data_specs(job.plan, job.model.vocab_size);
  if (job.plan.validation.every > 0) {
    for (const auto& [name, plan] : data::validation_plans(job.plan)) {
      for (auto& spec : data::data_specs(plan, job.model.vocab_size)) {
        specs.push_back(std::move(spec));
      }
    }
  }
  Json list = Json::array();
  std::string text;
  for (data::DataSpec& spec : specs) {
    if (!data::can_prepare(spec)) continue;
    spec.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    spec.log = [](const std::string& line) { std::cerr << term::echo(line) << "\n"; };
    const data::Prepared done = data::prepare(spec);
    list.push_back({{"kind", spec.kind},
                    {"path", spec.paths.front().string()},
                    {"folder", done.folder.string()},
                    {"documents", done.documents},
                    {"tokens", done.tokens},
                    {"was_there", done.was_there}});
    text +=
        cat(done.was_there ? "was there   " : "prepared    ",
            data::files_text(spec.paths.front(), spec.paths.size()), ": ",
            format_count(done.documents), spec.kind == "chat" ? " conversations, " : " documents, ",
            format_count(done.tokens), " tokens in ", done.folder.string(), "\n");
  }
  if (list.empty()) {
    throw Error(ErrorKind::kPlan, "the plan has no data to tokenise",
                "set data.kind = \"text\" or \"chat\": only these are prepared");
  }
  if (options.job.output.json) {
    am_apps::print(Json{{"ok", true}, {"prepared", list}});
  } else {
    am_apps::print(text);
  }
  return am_apps::kFine;
}

// ---- show-batch ---------------------------------------------------------------------------------

// A row of a batch: one sequence of seq_len positions (data/samples.h).
struct Row {
  std::vector<int64_t> inputs, labels, positions;

  bool counts(size_t i) const { return labels[i] != data::kIgnoredLabel; }
  // Returns the index after the last position of the document that begins at `first`.
  size_t document_end(size_t first) const {
    size_t end = first + 1;
    while (end < inputs.size() && positions[end] != 0) ++end;
    return end;
  }
  int64_t counted() const {
    return std::count_if(labels.begin(), labels.end(),
                         [](int64_t label) { return label != data::kIgnoredLabel; });
  }
};

Row row_of(const data::Batch& batch, int64_t row) {
  const auto part = [&](const std::vector<int64_t>& values) {
    const auto first = values.begin() + row * batch.seq_len;
    return std::vector<int64_t>(first, first + batch.seq_len);
  };
  return {part(batch.inputs), part(batch.labels), part(batch.positions)};
}

// Consecutive tokens of a document. The loss counts either all of them or none.
struct Piece {
  bool counted = false;
  std::vector<int64_t> ids;
};

// Returns the pieces of the document at the positions [first, end). The label of a position is the
// token after it. The last label is therefore not among the inputs, and is included only if the
// loss counts it.
std::vector<Piece> pieces_of(const Row& row, size_t first, size_t end) {
  std::vector<Piece> pieces = {{false, {row.inputs[first]}}};
  for (size_t i = first; i < end; ++i) {
    const bool last = i + 1 == end;
    if (last && !row.counts(i)) break;
    if (row.counts(i) != pieces.back().counted) pieces.push_back({row.counts(i), {}});
    pieces.back().ids.push_back(last ? row.labels[i] : row.inputs[i + 1]);
  }
  return pieces;
}

// Returns the text of the tokens as a JSON string. If `tokenizer` is null, returns the ids of the
// tokens.
std::string tokens_text(const std::vector<int64_t>& ids, const data::Tokenizer* tokenizer) {
  return tokenizer != nullptr ? dump_json(Json(tokenizer->decode(ids)), -1) : join(ids, " ");
}

int show_batch(const DataOptions& options, const job::Job& job) {
  config::Plan plan = job.plan;
  plan.train.global_batch_size = config::batch_shape(plan, job.layout.mesh.sizes().dp()).sequences;
  if (options.step > (int64_t{1} << 53) / plan.train.global_batch_size) {
    throw Error(ErrorKind::kUsage, cat("--step ", options.step, " is too large"));
  }
  const data::BatchReader reader = data::open_batches(plan, job.model.vocab_size);
  const int64_t first = (options.step - 1) * plan.train.global_batch_size;
  const int64_t rows = std::min(options.rows, plan.train.global_batch_size);
  const data::Batch batch = reader.read_batch(first, rows);
  const std::string name = data::tokenizer_name(plan);
  const bool readable = plan.data.reads_text() || name != "bytes";
  const auto tokenizer = readable ? data::make_tokenizer(name) : nullptr;
  Json list = Json::array();
  std::string text;
  for (const std::string& line : reader.descriptions()) text += cat("data        ", line, "\n");
  for (int64_t r = 0; r < rows; ++r) {
    const Row row = row_of(batch, r);
    const auto draw = reader.sampler().draw(first + r);
    text += cat("\nrow ", r, ": ",
                draw ? cat("sample ", draw->sample,
                           reader.sources().size() > 1 ? cat(" of source ", draw->source) : "")
                     : "beyond the end of the data",
                ", ", row.counted(), " of ", batch.seq_len, " labels count in the loss\n");
    for (size_t begin = 0; begin < row.inputs.size();) {
      const size_t end = row.document_end(begin);
      text += cat("  positions ", begin, " to ", end - 1, "\n");
      for (const Piece& piece : pieces_of(row, begin, end)) {
        if (piece.ids.empty()) continue;
        text += cat(piece.counted ? "    loss  " : "          ",
                    tokens_text(piece.ids, tokenizer.get()), "\n");
      }
      begin = end;
    }
    list.push_back({{"sample", draw ? Json(draw->sample) : Json()},
                    {"source", draw ? Json(draw->source) : Json()},
                    {"inputs", row.inputs},
                    {"labels", row.labels},
                    {"positions", row.positions},
                    {"text", tokenizer ? Json(tokenizer->decode(row.inputs)) : Json()}});
  }
  if (options.job.output.json) {
    am_apps::print(Json{{"ok", true}, {"step", options.step}, {"rows", list}});
  } else {
    am_apps::print(text);
  }
  return am_apps::kFine;
}

// Parses the command line, runs `command` on the checked plan, and returns the exit status. `add`
// adds the options of this command, and may be empty.
int run(const char* name, const char* description, const char* json_help, int argc, char** argv,
        const std::function<void(CLI::App&, DataOptions&)>& add,
        int (*command)(const DataOptions&, const job::Job&)) {
  DataOptions options;
  am_apps::CommonFlags flags;
  std::vector<std::string> sets;
  CLI::App app(description, name);
  app.add_option("PLAN", options.job.plan, "The plan file (TOML)")->required();
  am_apps::add_set(app, sets);
  if (add) add(app, options);
  am_apps::add_json(app, flags, json_help);
  am_apps::add_plugins(app, flags);
  am_apps::add_color(app, flags);
  if (const auto ended = am_apps::parse(app, argc, argv)) return *ended;
  options.job.overrides = am_apps::overrides_of(sets);
  options.job.plugins = flags.plugins();
  options.job.output = am_apps::Output::of(flags.json, flags.color_mode());
  return am_apps::guarded(name, options.job.output, [&] {
    Diagnostics found;
    const auto job = open_job(options.job, 0, nullptr, found);
    found.sort();
    if (!job) return am_apps::refuse(found, options.job.output);
    am_apps::print_diagnostics(found, options.job.output);
    return command(options, *job);
  });
}

}  // namespace

int run_prepare(int argc, char** argv) {
  return run("am-run prepare", kPrepareDescription,
             "{\"ok\", \"prepared\": [{\"kind\", \"path\", \"folder\", \"documents\", "
             "\"tokens\", \"was_there\"}]}",
             argc, argv, {}, prepare);
}

int run_show_batch(int argc, char** argv) {
  const auto add = [](CLI::App& app, DataOptions& options) {
    app.add_option("--step", options.step, "The step, from 1 (default: 1)")
        ->check(am_apps::integer_from(1));
    app.add_option("--rows", options.rows, "Number of rows to show (default: 4)")
        ->check(am_apps::integer_from(1));
  };
  return run("am-run show-batch", kShowDescription,
             "{\"ok\", \"step\", \"rows\": [{\"sample\", \"source\", \"inputs\", "
             "\"labels\", \"positions\", \"text\"}]}",
             argc, argv, add, show_batch);
}

}  // namespace am_run
