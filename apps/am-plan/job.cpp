// am-plan job PLAN --tokens N: predicts how long a whole training job takes, and what it costs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/predict/time/goodput.h"
#include "am/predict/time/prediction.h"
#include "am/term/table.h"
#include "commands.h"
#include "options.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

using am::predict::Prediction;

struct JobOptions {
  std::string tokens;  // for example "15e12" or "15T"
  std::string price;   // price of a GPU for an hour; empty: not given
};

constexpr double kDay = 24.0 * 3600.0;

// Returns the number in `text`, which may end with K, M, B or T. Throws Error(kUsage) if it is not
// a positive number.
double number_in(const std::string& text, const char* option) {
  constexpr std::string_view kSuffixes = "KMBT";
  std::string_view digits = text;
  double factor = 1.0;
  if (!digits.empty()) {
    const size_t suffix = kSuffixes.find(digits.back());
    if (suffix != std::string_view::npos) {
      factor = std::pow(1000.0, static_cast<double>(suffix + 1));
      digits.remove_suffix(1);
    }
  }
  const auto number = am::parse_number(std::string(digits));
  if (number && *number > 0.0 && std::isfinite(*number * factor)) return *number * factor;
  throw am::Error(am::ErrorKind::kUsage, am::cat(option, " ", text, " is not a positive number"),
                  "for example 2.5, 15e12 or 15T (K, M, B and T are factors)");
}

// Times, sizes and costs of a job. `interval` is absent if the error of the prediction is unknown.
// `price` is absent without --price. `failures` is absent if the plan's [cluster] lacks
// hours_between_failures or storage_gb_per_s.
struct Forecast {
  double tokens = 0.0;
  double step_tokens = 0.0;
  double steps = 0.0;
  double seconds = 0.0;                           // time of all steps, without failures and saves
  std::optional<am::predict::Interval> interval;  // error interval of `seconds`
  double gpus = 0.0;
  std::optional<double> price;  // price of a GPU for an hour
  double checkpoint_bytes = 0.0;
  std::optional<am::predict::JobForecast> failures;

  double goodput() const { return failures ? failures->planned.goodput : 1.0; }
  double gpu_hours() const { return seconds / goodput() / 3600.0 * gpus; }
};

// Returns the tokens to which train.max_steps and train.max_tokens limit the job. Throws
// Error(kUsage) if neither applies.
double tokens_of(const am::config::Plan& plan, double step_tokens) {
  double tokens = std::numeric_limits<double>::infinity();
  if (plan.max_steps_apply()) tokens = step_tokens * am::as_double(plan.train.max_steps);
  if (plan.train.max_tokens > 0) tokens = std::min(tokens, am::as_double(plan.train.max_tokens));
  if (tokens > 0.0 && std::isfinite(tokens)) return tokens;
  throw am::Error(am::ErrorKind::kUsage, "the plan does not give the job's number of tokens",
                  "--tokens 15T, or train.max_steps or train.max_tokens in the plan");
}

Forecast forecast_of(const PlanInput& input, const Prediction& prediction,
                     const JobOptions& options) {
  Forecast job;
  job.step_tokens = prediction.workload.step_tokens();
  job.tokens = options.tokens.empty() ? tokens_of(input.plan, job.step_tokens)
                                      : number_in(options.tokens, "--tokens");
  job.steps = std::ceil(job.tokens / job.step_tokens);
  constexpr double kMostSteps = 1e15;
  if (job.steps > kMostSteps) {
    throw am::Error(am::ErrorKind::kUsage, "the job has more than 10^15 steps",
                    "reduce --tokens, or raise train.global_batch_size");
  }
  job.seconds = job.steps * prediction.time.seconds;
  if (prediction.interval) {
    job.interval = {job.steps * prediction.interval->low, job.steps * prediction.interval->high};
  }
  job.gpus = am::as_double(input.layout.mesh.world_size());
  if (!options.price.empty()) job.price = number_in(options.price, "--price");
  job.checkpoint_bytes = am::predict::checkpoint_bytes(input.plan, input.layout);
  job.failures = am::predict::forecast(input.plan, input.layout, prediction.assumptions.gpu,
                                       prediction.time.seconds, std::llround(job.steps));
  // A plan without checkpoint.every is assumed to save at the best interval.
  if (job.failures && input.plan.checkpoint.every == 0) job.failures->planned = job.failures->best;
  return job;
}

am::Json to_json(const Forecast& job, const Prediction& prediction) {
  am::Json json = {{"tokens", job.tokens},
                   {"steps", std::llround(job.steps)},
                   {"step_seconds", prediction.time.seconds},
                   {"days", job.seconds / job.goodput() / kDay},
                   {"interval_days", nullptr},
                   {"gpus", std::llround(job.gpus)},
                   {"gpu_hours", job.gpu_hours()},
                   {"price", nullptr},
                   {"checkpoint_bytes", std::llround(job.checkpoint_bytes)},
                   {"failures", nullptr},
                   {"gpu", prediction.assumptions.gpu.name}};
  if (job.interval) {
    json["interval_days"] = {job.interval->low / job.goodput() / kDay,
                             job.interval->high / job.goodput() / kDay};
  }
  if (job.price) json["price"] = *job.price * job.gpu_hours();
  if (job.failures) {
    const am::predict::FailureLosses& losses = job.failures->losses;
    json["failures"] = {{"seconds_between", losses.between_failures},
                        {"restart_seconds", losses.restart},
                        {"save_seconds", losses.save},
                        {"goodput", job.failures->planned.goodput},
                        {"checkpoint_every", job.failures->planned.steps},
                        {"best_goodput", job.failures->best.goodput},
                        {"best_checkpoint_every", job.failures->best.steps}};
  }
  return json;
}

std::string days_text(double seconds) {
  if (seconds < kDay) return am::format_duration(seconds);
  return am::cat(am::format_fixed(seconds / kDay, seconds < 10.0 * kDay ? 1 : 0), " days");
}

std::string report(const PlanInput& input, const Forecast& job, const Prediction& prediction,
                   const am::term::Style& style) {
  const double goodput = job.goodput();
  am::term::Table facts({{""}, {"", am::term::Align::kWrap}});
  const auto add = [&](const char* name, std::string value) {
    facts.add({name, std::move(value)});
  };
  add("layout",
      am::cat(mesh_text(input.layout.mesh.sizes(), style), " of ", prediction.assumptions.gpu.name,
              ", ", prediction.workload.implementation->name));
  add("tokens",
      am::cat(am::format_short_count(job.tokens), " in ", am::format_count(std::llround(job.steps)),
              " steps of ", am::format_short_count(job.step_tokens), ", ",
              am::format_step_time(prediction.time.seconds), " each"));
  std::string time = style.paint(am::term::Role::kBold, days_text(job.seconds / goodput));
  if (job.interval) {
    time += am::cat(", between ", days_text(job.interval->low / goodput), " and ",
                    days_text(job.interval->high / goodput));
  } else {
    time += ", with an unknown error";
  }
  add("time", time);
  add("GPU-hours", am::format_short_count(job.gpu_hours()));
  if (job.price) {
    add("price", am::format_short_count(*job.price * job.gpu_hours()));
  }
  add("checkpoint", am::format_bytes(std::llround(job.checkpoint_bytes)));
  if (job.failures) {
    const am::predict::FailureLosses& losses = job.failures->losses;
    const auto saves = [&](const am::predict::SaveInterval& interval) {
      const double between = am::as_double(interval.steps) * prediction.time.seconds;
      return am::cat(am::format_fixed(100.0 * interval.goodput, 1), " % with a save every ",
                     am::format_count(interval.steps), interval.steps == 1 ? " step" : " steps",
                     " (", am::format_duration(between), ")");
    };
    add("failures",
        am::cat("one every ", am::format_duration(losses.between_failures), "; ",
                am::format_duration(losses.restart),
                " until training continues; a save blocks for ", am::format_duration(losses.save)));
    if (input.plan.checkpoint.every > 0) add("goodput", saves(job.failures->planned));
    add("best", saves(job.failures->best));
  }
  std::string text = facts.text(style);
  if (!job.failures) {
    text +=
        "\nfailures are not counted: to predict the goodput and the best interval between "
        "checkpoints, set cluster.hours_between_failures and cluster.storage_gb_per_s\n";
  }
  if (prediction.assumptions.gpu_is_assumed) {
    text += am::cat("\n", assumed_gpu_text(prediction.assumptions.gpu), "\n");
  }
  if (!prediction.basis.empty()) text += am::cat("\n", prediction.basis, ".\n");
  return text;
}

int run_job(const PlanOptions& plan, const JobOptions& options, const Output& output) {
  int status = am_apps::kFine;
  const auto input = load_input(plan, output, status);
  if (!input.has_value()) return status;
  am::Diagnostics found;
  const auto prediction =
      am::predict::predict_step(input->plan, input->model, input->layout, /*how_many=*/1, found);
  if (!prediction) return am_apps::refuse(found, output);
  const Forecast job = forecast_of(*input, *prediction, options);
  if (output.json) {
    am_apps::print(to_json(job, *prediction));
  } else {
    print_folded(report(*input, job, *prediction, output.out), output.out);
  }
  return am_apps::kFine;
}

Run declare_job(CLI::App& command, SharedOptions& shared) {
  // The function that is returned below also owns the options, so they outlive this call.
  const auto options = std::make_shared<JobOptions>();
  add_plan(command, shared);
  add_option(command,
             {"--tokens", "N",
              "Tokens of the job, such as 15e12 or 15T (default: those of "
              "train.max_steps, or train.max_tokens if they are fewer)"},
             options->tokens);
  add_option(command, {"--price", "P", "Price of a GPU for an hour, in any currency"},
             options->price);
  return
      [&shared, options](const Output& output) { return run_job(shared.plan, *options, output); };
}

}  // namespace

const Command kJobCommand = {
    .name = "job",
    .summary = "Predict the days, the GPU-hours and the price of a whole job",
    .example = "am-plan job plan.toml --tokens 15e12 --price 2.50",
    .declare = declare_job,
};

}  // namespace am_plan
