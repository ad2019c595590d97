#include "command_line.h"

#include <memory>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/planner/exchange/exchange.h"
#include "am/planner/rules/dialects/dialect.h"
#include "commands.h"
#include "common/command_line.h"
#include "common/completions.h"
#include "common/man_page.h"

namespace am_plan {
namespace {

constexpr const char* kDescription =
    "Plans parallel training: checks a plan, draws its mesh, shows who holds which shard and how "
    "much memory it takes.\n"
    "It needs the plan and the model's config.json: no GPU, no weights, no network.";

constexpr const char* kExamples =
    "Examples:\n"
    "  am-plan check plans/*.toml\n"
    "  am-plan show plan.toml --set mesh.tp_size=4\n"
    "  am-plan shards plan.toml --param '*.q_proj.weight'\n"
    "  am-plan memory plan.toml --json\n"
    "  am-plan explain tp.kv_heads";

class CommandLine {
 public:
  CommandLine() : app_(kDescription, "am-plan") {
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.set_version_flag("--version", am::cat("am-plan ", AM_VERSION));
    app_.footer(kExamples);
    am_apps::add_color(app_, flags_);
    add_check();
    add_show();
    add_model();
    add_shards();
    add_tp();
    add_memory();
    add_cost();
    add_search();
    add_report();
    add_calibrate();
    add_schedule();
    add_diff();
    add_export();
    add_import();
    add_catalogue();
    add_documentation();
  }
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  std::optional<Invocation> parse(int argc, char** argv, int& status) {
    if (const auto ended = am_apps::parse(app_, argc, argv)) {
      status = *ended;
      return std::nullopt;
    }
    plan_.overrides = am_apps::overrides_of(sets_);
    plan_.plugins = flags_.plugins();
    shards_.plan = memory_.plan = schedule_.plan = export_.plan = diff_.plan = plan_;
    if (shards_rank_->count() > 0) shards_.rank = rank_;
    if (memory_rank_->count() > 0) memory_.rank = rank_;
    const Output output = Output::of(flags_.json, flags_.color_mode());
    return Invocation{output, [this, output] { return run_(output); }};
  }

 private:
  CLI::App& add(const char* name, const char* description, const char* example,
                std::function<int(const Output&)> run) {
    CLI::App* command = app_.add_subcommand(name, description);
    command->footer(am::cat("Example:\n  ", example));
    command->callback([this, run = std::move(run)] { run_ = run; });
    return *command;
  }

  void add_plan_options(CLI::App& command) {
    command.add_option("PLAN", plan_.files, "The plan file (TOML)")->required()->expected(1);
    add_override_options(command);
  }

  void add_override_options(CLI::App& command) {
    am_apps::add_set(command, sets_);
    command
        .add_option("--world-size", plan_.world_size,
                    "Number of ranks, as a launcher would give it")
        ->check(am_apps::integer_from(1))
        ->type_name("N");
    am_apps::add_plugins(command, flags_);
    am_apps::add_json(command, flags_, "One JSON object on stdout");
  }

  CLI::Option* add_rank(CLI::App& command, const char* help) {
    return command.add_option("--rank", rank_, help)
        ->check(am_apps::integer_from(0))
        ->type_name("R");
  }

  void add_check() {
    CLI::App& command = add("check", "Report every rule that a plan violates",
                            "am-plan check plan.toml --set mesh.tp_size=16",
                            [this](const Output& output) { return run_check(plan_, output); });
    command.add_option("PLAN", plan_.files, "Plan files (TOML)")->required()->expected(1, 1 << 20);
    command
        .add_option("--dialect", plan_.dialect, "Judge by that framework's own rules, not by ours")
        ->check(CLI::IsMember(am::planner::dialect_names()))
        ->type_name("NAME");
    add_override_options(command);
  }

  void add_show() {
    CLI::App& command = add("show", "Draw the mesh: ranks, nodes and groups",
                            "am-plan show plan.toml --world-size 64",
                            [this](const Output& output) { return run_show(plan_, output); });
    add_plan_options(command);
  }

  void add_model() {
    CLI::App& command =
        add("model", "Count a model's parameters", "am-plan model plans/models/llama-3.1-8b",
            [this](const Output& output) { return run_model(model_, output); });
    command.add_option("CONFIG", model_.config, "A Hugging Face config.json, or its folder")
        ->required();
    command.add_option("--seq-len", model_.seq_len, "Sequence length of the FLOPs per token")
        ->check(am_apps::integer_from(1))
        ->type_name("S");
    am_apps::add_json(command, flags_, "One JSON object on stdout");
  }

  void add_shards() {
    CLI::App& command = add("shards", "Show which part of each parameter a rank holds",
                            "am-plan shards plan.toml --rank 3 --param 'model.layers.0.*'",
                            [this](const Output& output) { return run_shards(shards_, output); });
    add_plan_options(command);
    shards_rank_ = add_rank(command, "This rank's part (default: the first rank that has one)");
    command.add_option("--param", shards_.glob, "Only parameters whose name matches")
        ->type_name("GLOB");
  }

  void add_tp() {
    CLI::App& command = add("tp", "Show the tensor-parallel plan and what it matches",
                            "am-plan tp plan.toml --set 'strategy.tp_plan=\"my_tp.toml\"'",
                            [this](const Output& output) { return run_tp(plan_, output); });
    add_plan_options(command);
  }

  void add_memory() {
    CLI::App& command = add("memory", "Predict the memory of the worst rank, or of one",
                            "am-plan memory plan.toml --set train.micro_batch_size=2",
                            [this](const Output& output) { return run_memory(memory_, output); });
    add_plan_options(command);
    memory_rank_ = add_rank(command, "This rank (default: the worst)");
  }

  void add_schedule() {
    CLI::App& command =
        add("schedule", "Draw the pipeline's timeline: who computes what, and when",
            "am-plan schedule plan.toml --set pipeline.microbatches=16 --svg timeline.svg",
            [this](const Output& output) { return run_schedule(schedule_, output); });
    add_plan_options(command);
    const auto add_file = [&command](const char* name, std::string& file, const char* help) {
      command.add_option(name, file, help)->type_name("FILE");
    };
    add_file("--svg", schedule_.svg, "Write the timeline as a picture");
    add_file("--trace", schedule_.trace, "Write it as a Chrome trace, for Perfetto");
    add_file("--csv", schedule_.csv, "Write the order of passes as PyTorch's CSV");
    add_file("--from-csv", schedule_.from_csv,
             "Check and draw this CSV in the place of the plan's schedule");
  }

  void add_cost() {
    CLI::App& command = add("cost", "Predict the time of a step",
                            "am-plan cost plan.toml --set 'cluster.gpu=\"h100-sxm\"'",
                            [this](const Output& output) { return run_cost(plan_, output); });
    add_plan_options(command);
  }

  void add_search() {
    CLI::App& command = add("search", "Find the fastest layouts of a model on a number of GPUs",
                            "am-plan search --model plans/models/llama-3.1-8b --gpus 8 --runnable",
                            [this](const Output& output) { return run_search(search_, output); });
    const auto positive = am_apps::integer_from(1);
    command.add_option("--model", search_.model, "A Hugging Face config.json, or its folder")
        ->required()
        ->type_name("CONFIG");
    command.add_option("--gpus", search_.gpus, "How many GPUs")
        ->required()
        ->check(positive)
        ->type_name("N");
    command
        .add_option("--gpu", search_.gpu,
                    "Which: a file of plans/clusters, or one's path (default: h100-sxm)")
        ->type_name("NAME");
    command
        .add_option("--seq-len", search_.seq_len,
                    "Tokens of a sequence (default: 4096, or what the model was made for)")
        ->check(positive)
        ->type_name("S");
    command
        .add_option("--global-batch-size", search_.global_batch_size,
                    "Sequences of a step (default: about 4 Mi tokens)")
        ->check(positive)
        ->type_name("B");
    command.add_option("--top", search_.top, "How many layouts to show (default: 10)")
        ->check(positive)
        ->type_name("K");
    command.add_option("--strategy", search_.strategy, "Data-parallel strategy")
        ->check(CLI::IsMember({"fsdp2", "megatron_fsdp", "ddp", "all"}))
        ->type_name("NAME");
    command
        .add_option("--implementation", search_.implementation,
                    "Who runs the step: automesh, torchtitan, megatron, ...")
        ->type_name("NAME");
    command.add_option("--calibration", search_.calibration, "A file of am-plan calibrate")
        ->type_name("FILE");
    command.add_option("--write", search_.write, "Write the first layout as a plan")
        ->type_name("FILE");
    command.add_flag("--runnable", search_.runnable, "Only what this version of am-run runs");
    am_apps::add_json(command, flags_, "One JSON object on stdout");
  }

  void add_report() {
    CLI::App& command = add("report", "Write one HTML page on a plan: mesh, memory, time, shards",
                            "am-plan report plan.toml -o plan.html", [this](const Output& output) {
                              report_.plan = plan_;
                              return run_report(report_, output);
                            });
    add_plan_options(command);
    command.add_option("-o,--output", report_.output, "The page (default: plan.html)")
        ->type_name("FILE");
  }

  void add_calibrate() {
    CLI::App& command =
        add("calibrate", "Fit the time model to measured runs; say how far off it is",
            "am-plan calibrate runs.csv -o mine.toml",
            [this](const Output& output) { return run_calibrate(calibrate_, output); });
    command.add_option("ROWS", calibrate_.rows, "Measured runs (default: the built-in ones)")
        ->type_name("CSV");
    command.add_option("-o,--output", calibrate_.output, "Write the constants here")
        ->type_name("FILE");
    command.add_flag("--evaluate", calibrate_.evaluate,
                     "Do not fit: compare the constants as they are with ROWS");
    am_apps::add_json(command, flags_, "One JSON object on stdout");
  }

  void add_diff() {
    CLI::App& command = add("diff", "Show what changes from one plan to another",
                            "am-plan diff before.toml after.toml",
                            [this](const Output& output) { return run_diff(diff_, output); });
    command.add_option("A", diff_.a, "A plan file (TOML)")->required();
    command.add_option("B", diff_.b, "Another")->required();
    add_override_options(command);
  }

  static void add_framework(CLI::App& command, const char* name, std::string& framework,
                            const char* help) {
    std::vector<std::string> names;
    for (const auto& one : am::planner::frameworks()) names.emplace_back(one.name);
    command.add_option(name, framework, help)
        ->required()
        ->check(CLI::IsMember(names))
        ->type_name("FRAMEWORK");
  }

  void add_export() {
    CLI::App& command =
        add("export", "Write a plan's layout in another framework's own configuration",
            "am-plan export plan.toml --to torchtitan -o torchtitan.toml",
            [this](const Output& output) { return run_export(export_, output); });
    add_plan_options(command);
    add_framework(command, "--to", export_.framework, "Whose configuration");
    command.add_option("-o,--output", export_.output, "Write it here")->type_name("FILE");
    command.add_flag("--flags", export_.flags,
                     "As flags of a command line, where the framework has both");
  }

  void add_import() {
    CLI::App& command =
        add("import", "Make a plan of another framework's configuration",
            "am-plan import train.yaml --from nemo-automodel --model models/llama-3.1-8b",
            [this](const Output& output) { return run_import(import_, output); });
    command.add_option("FILE", import_.file, "The configuration")->required();
    add_framework(command, "--from", import_.framework, "Whose configuration it is");
    command
        .add_option("--model", import_.model,
                    "The plan's model.path: a Hugging Face config.json, or its folder")
        ->type_name("CONFIG");
    command.add_option("-o,--output", import_.output, "Write the plan here")->type_name("FILE");
    command.add_flag("--force", import_.force,
                     "Leave out what a plan cannot say, though the layout or the numbers change");
    am_apps::add_json(command, flags_, "One JSON object on stdout");
  }

  void add_documentation() {
    CLI::App& completions =
        add("completions", "Print completions for a shell", "source <(am-plan completions bash)",
            [this](const Output&) {
              am_apps::print(am_apps::completions(am_apps::describe(app_), shell_));
              return am_apps::kFine;
            });
    std::vector<std::string> shells(am_apps::shell_names().begin(), am_apps::shell_names().end());
    completions.add_option("SHELL", shell_, "Which shell")
        ->required()
        ->check(CLI::IsMember(shells))
        ->type_name("SHELL");
    CLI::App& man =
        add("man", "Print the manual page of the tool or of a command, or write those of all",
            "am-plan man export | man -l -", [this](const Output&) { return print_manual(); });
    man.add_option("COMMAND", manual_of_, "Which command's page")->type_name("COMMAND");
    man.add_option("-o,--output", manual_folder_, "Write all pages into this folder")
        ->type_name("DIR");
  }

  int print_manual() const {
    const std::string wanted =
        manual_of_.empty() ? "am-plan.1" : am::cat("am-plan-", manual_of_, ".1");
    bool printed = !manual_folder_.empty();
    for (const auto& [name, text] : am_apps::man_pages(am_apps::describe(app_), AM_VERSION)) {
      if (!manual_folder_.empty()) {
        am::write_file_atomically(std::filesystem::path(manual_folder_) / name, text);
      } else if (name == wanted) {
        am_apps::print(text);
        printed = true;
      }
    }
    if (!printed) {
      throw am::Error(am::ErrorKind::kUsage, am::cat("am-plan has no command ", manual_of_));
    }
    return am_apps::kFine;
  }

  void add_catalogue() {
    CLI::App& rules = add("rules", "List the rules that `check` knows", "am-plan rules",
                          [](const Output& output) { return run_rules(output); });
    am_apps::add_json(rules, flags_, "One JSON object on stdout");
    CLI::App& explain = add("explain", "Explain a rule: why it exists, how to satisfy it",
                            "am-plan explain tp.heads",
                            [this](const Output& output) { return run_explain(rule_, output); });
    explain.add_option("RULE", rule_, "A rule's id, as diagnostics print it")->required();
    am_apps::add_json(explain, flags_, "One JSON object on stdout");
    CLI::App& schema = add("schema", "Print a JSON Schema of the plan file, for editors",
                           "am-plan schema > plan.schema.json",
                           [this](const Output& output) { return run_schema(markdown_, output); });
    schema.add_flag("--markdown", markdown_, "As Markdown tables, for people");
    am_apps::add_json(schema, flags_, "The JSON Schema (the default)");
  }

  CLI::App app_;
  am_apps::CommonFlags flags_;
  std::vector<std::string> sets_;
  PlanOptions plan_;
  ModelOptions model_;
  ShardOptions shards_;
  MemoryOptions memory_;
  SearchOptions search_;
  ReportOptions report_;
  CalibrateOptions calibrate_;
  ScheduleOptions schedule_;
  ExportOptions export_;
  ImportOptions import_;
  DiffOptions diff_;
  std::string shell_;
  std::string manual_of_;
  std::string manual_folder_;
  int64_t rank_ = 0;
  CLI::Option* shards_rank_ = nullptr;
  CLI::Option* memory_rank_ = nullptr;
  std::string rule_;
  bool markdown_ = false;
  std::function<int(const Output&)> run_;
};

}  // namespace

std::optional<Invocation> parse_command_line(int argc, char** argv, int& status) {
  // The options live as long as the invocation that reads them.
  auto line = std::make_shared<CommandLine>();
  auto invocation = line->parse(argc, argv, status);
  if (invocation.has_value()) {
    invocation->run = [line, run = std::move(invocation->run)] { return run(); };
  }
  return invocation;
}

}  // namespace am_plan
