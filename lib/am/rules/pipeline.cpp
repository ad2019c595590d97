// Rules on pipeline parallelism.
#include <array>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/config/batch.h"
#include "am/config/field.h"
#include "am/config/schedule_names.h"
#include "am/layout/stages.h"
#include "am/pipeline/csv.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

int64_t stage_count(const RuleContext& context) {
  return context.plan.mesh.pp_size * context.plan.pipeline.virtual_stages;
}

bool has_pipeline(const RuleContext& context) {
  return context.axes != nullptr && context.axes->pp > 1;
}

void check_section(const RuleContext& context, Diagnostics& found) {
  if (context.plan.mesh.pp_size > 1) return;
  for (const char* key :
       {"schedule", "microbatches", "virtual_stages", "split_points", "balance"}) {
    const std::string name = cat("pipeline.", key);
    if (!config::is_chosen(context.plan, name)) continue;
    found.warning("pp.section", context.plan.span(name),
                  cat(key, " has no effect with pp_size = 1"),
                  "remove [pipeline], or set pp_size in [mesh]");
    return;
  }
}

// Adds an error with the id `rule` if the plan violates a constraint of its pipeline schedule and
// the constraint concerns `key`.
void report_constraint(const RuleContext& context, const char* rule, const std::string& key,
                       Diagnostics& found) {
  if (!has_pipeline(context)) return;
  const auto constraint = pipeline::violated_constraint(
      layout::pipeline_shape(context.plan, context.axes->pp, context.dp.value_or(1)));
  if (!constraint.has_value() || constraint->key != key) return;
  std::vector<std::string> help;
  if (!constraint->nearest.empty()) help.push_back(assignment(key, constraint->nearest));
  if (!constraint->instead.empty()) help.push_back(cat("schedule = \"", constraint->instead, "\""));
  const std::string name = cat("pipeline.", key);
  found.error(rule, context.plan.span(context.plan.given(name) ? name : "pipeline.schedule"),
              constraint->message, join(help, ", or "));
}

void check_virtual(const RuleContext& context, Diagnostics& found) {
  report_constraint(context, "pp.virtual_stages", "virtual_stages", found);
}

void check_schedule(const RuleContext& context, Diagnostics& found) {
  report_constraint(context, "pp.schedule", "microbatches", found);
}

void check_schedule_file(const RuleContext& context, Diagnostics& found) {
  const config::PipelineSection& pipeline = context.plan.pipeline;
  if (!has_pipeline(context) || !config::is_schedule_file(pipeline.schedule)) return;
  const std::string file = context.plan.resolve(pipeline.schedule).string();
  if (!pipeline.csv) {
    found.error("pp.schedule_file", context.plan.span("pipeline.schedule"),
                cat(file, " cannot be read"), "paths are relative to the plan file");
    return;
  }
  if (!pipeline::parse_csv(*pipeline.csv, file, found)) return;
  report_constraint(context, "pp.schedule_file", "schedule", found);
}

void check_layers(const RuleContext& context, Diagnostics& found) {
  if (!has_pipeline(context) || context.model == nullptr) return;
  const int64_t layers = context.model->num_hidden_layers;
  const int64_t stages = stage_count(context);
  const auto& points = context.plan.pipeline.split_points;
  if (layers >= stages || layout::split_points_fit(points, layers, stages)) return;
  std::string help = cat("set pp_size to at most ", layers / context.plan.pipeline.virtual_stages);
  if (layers < context.plan.pipeline.virtual_stages)
    help = cat("set pp_size * virtual_stages to at most ", layers);
  found.error(
      "pp.layers", context.plan.span("mesh.pp_size"),
      cat("pp_size * virtual_stages = ", stages, " stages are too many for ", layers, " layers"),
      help);
}

void check_split_points(const RuleContext& context, Diagnostics& found) {
  const auto& points = context.plan.pipeline.split_points;
  if (!has_pipeline(context) || context.model == nullptr || points.empty()) return;
  const int64_t layers = context.model->num_hidden_layers;
  const int64_t stages = stage_count(context);
  if (layout::split_points_fit(points, layers, stages)) return;
  found.error("pp.split_points", context.plan.span("pipeline.split_points"),
              cat("split_points must be ", stages - 1, " ascending layer numbers from 0 to ",
                  layers, ": the first layer of every stage after the first"),
              "leave split_points out for an even split");
}

// Returns a hint with up to two ways to make the number of micro-batches per step a multiple of
// pipeline.microbatches: legal values of `microbatches`, and legal values of the global batch size
// for the current `microbatches`.
std::string legal_rounds(const config::BatchShape& batch, const pipeline::PipelineShape& given) {
  std::vector<int64_t> fitting;
  pipeline::PipelineShape shape = given;
  for (const int64_t count : divisors(batch.micro_batches)) {
    shape.microbatches = count;
    if (!pipeline::violated_constraint(shape).has_value()) fitting.push_back(count);
  }
  std::vector<std::string> ways;
  if (!fitting.empty()) {
    ways.push_back(assignment("microbatches", nearest_values(fitting, given.microbatches)));
  }
  if (!pipeline::violated_constraint(given).has_value()) {
    ways.push_back(cat(
        "train.global_batch_size = ",
        join(nearest_multiples(batch.one_each * batch.in_round, batch.sequences), ", ", " or ")));
  }
  return join(ways, "; or ");
}

void check_microbatches(const RuleContext& context, Diagnostics& found) {
  if (!has_pipeline(context) || !context.dp.has_value()) return;
  const config::Plan& plan = context.plan;
  const config::BatchShape batch = config::batch_shape(plan, *context.dp);
  const pipeline::PipelineShape shape = layout::pipeline_shape(plan, context.axes->pp, *context.dp);
  if (plan.pipeline.microbatches == 0) {
    // Without this key, the number of stages determines the number of micro-batches in a round
    // (except under the strategy megatron). If the number of stages is invalid, the rule
    // "pp.virtual_stages" reports an error.
    const auto constraint = pipeline::violated_constraint(shape);
    if (constraint.has_value() && constraint->key == "virtual_stages") return;
  }
  if (batch.sequences < batch.one_each || batch.divides_into_rounds()) return;
  found.error("pp.microbatches", plan.span("pipeline.microbatches"),
              cat("a step has ", batch.micro_batches,
                  batch.micro_batches == 1 ? " micro-batch" : " micro-batches",
                  " for each rank, which is not a multiple of microbatches = ", batch.in_round),
              legal_rounds(batch, shape));
}

// Adds a note if the layers cannot be divided evenly over the stages. The split is legal, but every
// rank waits for the ranks with the most layers. Adds no note if the plan sets split_points or
// another balance than "layers".
void check_even(const RuleContext& context, Diagnostics& found) {
  if (!has_pipeline(context) || context.model == nullptr) return;
  const int64_t layers = context.model->num_hidden_layers;
  const int64_t stages = stage_count(context);
  const config::PipelineSection& pipeline = context.plan.pipeline;
  if (!pipeline.split_points.empty() || pipeline.balance != "layers" || layers < stages) return;
  if (layers % stages == 0) return;
  const int64_t fuller = layers % stages;
  found.add({"pp.even", Severity::kNote, context.plan.span("mesh.pp_size"),
             cat(layers, " layers on ", stages, " stages: ", fuller,
                 fuller == 1 ? " stage has " : " stages have ", layers / stages + 1,
                 ", the others ", layers / stages),
             cat("pp_size * virtual_stages = ",
                 join(nearest_values(divisors(layers), stages), ", ", " or "),
                 "; or balance = \"cost\", which counts the head on the last stage too")});
}

void check_balance(const RuleContext& context, Diagnostics& found) {
  const config::PipelineSection& pipeline = context.plan.pipeline;
  if (!has_pipeline(context) || pipeline.balance == "layers") return;
  if (pipeline.split_points.empty()) return;
  found.warning("pp.balance", context.plan.span("pipeline.balance"),
                "balance has no effect with split_points", "remove one of the two keys");
}

constexpr std::array<Rule, 9> kRules = {{
    {.id = "pp.section",
     .summary = "[pipeline] is given only with pp_size > 1 (a warning)",
     .explain = "Without pipeline stages the schedule and its keys do nothing; a plan that has "
                "them probably lost its pp_size.",
     .check = check_section},
    {.id = "pp.virtual_stages",
     .summary = "virtual_stages fits the schedule",
     .explain =
         "gpipe and 1f1b run one stage on each rank. interleaved_1f1b and looped_bfs interleave "
         "two "
         "or more, interleaved_zero_bubble any number: with one it is ZB-H1, which PyTorch does "
         "not "
         "run. zbv_zero_bubble and dual_pipe_v arrange "
         "the stages as a V: exactly two on each rank, so that the first rank also has the last "
         "stage.",
     .check = check_virtual},
    {.id = "pp.schedule",
     .summary = "the schedule can run with pipeline.microbatches micro-batches",
     .explain =
         "1f1b and dual_pipe_v fill the pipeline before their steady state, so they need a "
         "micro-batch for each stage: pp_size for 1f1b, 2 * pp_size for dual_pipe_v. gpipe, "
         "looped_bfs and zbv_zero_bubble run with fewer, and so does the strategy megatron's "
         "1f1b.\n\n"
         "interleaved_1f1b and interleaved_zero_bubble divide the micro-batches into rounds: "
         "microbatches / pp_size rounds, rounded down and at least one. All rounds have the same "
         "size, so microbatches must be a multiple of the number of rounds; multiples of pp_size "
         "always are.\n\n"
         "A schedule is a list of passes on every rank, which am-plan draws and a job executes. A "
         "schedule of millions of passes is refused: pp_size or microbatches is then a typo.",
     .check = check_schedule},
    {.id = "pp.schedule_file",
     .summary = "a schedule's CSV file is legal and of the plan's sizes",
     .explain =
         "schedule = \"mine.csv\" runs your own schedule: one line per pipeline rank, one cell per "
         "pass (0F0 is stage 0's forward on micro-batch 0; B is a whole backward, I and W its two "
         "halves), in the format of PyTorch's files and of `am-plan schedule --csv`. Every stage "
         "runs every micro-batch once, and no rank may wait for another forever. The file decides "
         "which rank has which stages; all ranks have the same number. It must have pp_size ranks, "
         "virtual_stages stages per rank, and microbatches micro-batches.",
     .check = check_schedule_file},
    {.id = "pp.layers",
     .summary = "every pipeline stage has a layer",
     .explain = "The decoder layers are distributed over pp_size * virtual_stages stages; a stage "
                "without one would only add a transfer. split_points can leave the embedding alone "
                "on the first stage, and the head alone on the last, as Megatron does with "
                "--account-for-embedding-in-pipeline-split and "
                "--account-for-loss-in-pipeline-split.",
     .check = check_layers},
    {.id = "pp.even",
     .summary = "the layers divide evenly over the pipeline's stages (reported as a note)",
     .explain =
         "Layers that are left over go to the first stages, one each. The other stages wait "
         "for these at every micro-batch. That may be intended, since the last stage "
         "computes the head too; balance = \"cost\" weighs it, and split_points states any "
         "split. Megatron refuses an uneven split unless the counts are given. NeMo AutoModel "
         "splits as here; torchtitan does so only if its two settings "
         "pipeline_parallel_*_stage_less_layers are 0.",
     .check = check_even},
    {.id = "pp.split_points",
     .summary = "split_points are ascending first layers, one for each stage after the first",
     .explain = "split_points = [6, 14] makes three stages: layers 0-5, 6-13 and 14 to the end. "
                "A first 0 leaves the embedding alone on the first stage, and the number of layers "
                "as the last number leaves the head alone on the last stage. "
                "Give fewer layers to the last stage to make up for the head, which costs as much "
                "as several layers when the vocabulary is large.",
     .check = check_split_points},
    {.id = "pp.balance",
     .summary = "balance is given only without split_points (a warning)",
     .explain = "balance = \"cost\" distributes consecutive layers so that the largest number of "
                "forward FLOPs of a stage is as small as possible. A layer counts the FLOPs of its "
                "matrices and of its attention at train.seq_len, and the last stage also those of "
                "the head. split_points set the stages by hand, and take precedence.",
     .check = check_balance},
    {.id = "pp.microbatches",
     .summary = "the micro-batches of a step are a multiple of pipeline.microbatches",
     .explain =
         "A step has global_batch_size / (micro_batch_size * dp) micro-batches for each pipeline, "
         "and the schedule runs pipeline.microbatches of them at a time. More micro-batches make "
         "the bubble smaller: (pp - 1) / (microbatches + pp - 1) for 1f1b.",
     .check = check_microbatches},
}};

}  // namespace

std::span<const Rule> pipeline_rules() { return kRules; }

}  // namespace am::rules
