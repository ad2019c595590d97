// am-plan schedule PLAN: draws the pipeline's timeline and writes it to files.
#include "am/pipeline/schedule.h"

#include <memory>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/batch.h"
#include "am/draw/timeline_svg.h"
#include "am/draw/timeline_text.h"
#include "am/draw/timeline_trace.h"
#include "am/layout/stages.h"
#include "am/pipeline/csv.h"
#include "am/pipeline/timeline.h"
#include "am/predict/memory/memory.h"
#include "am/term/table.h"
#include "commands.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

struct ScheduleOptions {
  std::string from_csv;  // file with the schedule to show; empty: the schedule of the plan
  // Paths of files to which the timeline or the schedule is written; empty: no such file.
  std::string svg;
  std::string trace;
  std::string csv;
};

using am::pipeline::Schedule;
using am::pipeline::Timeline;

struct Answer {
  Schedule schedule;
  Timeline timeline;
  bool has_pipeline = true;
  int64_t per_step = 1;  // number of micro-batches of a step
  // Number of runs of the schedule per step; nullopt if the number of micro-batches of a step is
  // not a multiple of the schedule's.
  std::optional<int64_t> rounds;
};

// Returns the schedule of a plan without a pipeline: one stage, whose rank runs each micro-batch's
// backward directly after its forward. Adds an error and returns nothing if `count`, the number of
// micro-batches, is above kLargestSchedule.
std::optional<Schedule> micro_batches_in_order(int64_t count, am::Diagnostics& found) {
  if (count > am::pipeline::kLargestSchedule) {
    found.error("pp.schedule", {},
                am::cat("a step of ", count, " micro-batches is too long to list"),
                "use a smaller train.global_batch_size, or a larger train.micro_batch_size");
    return std::nullopt;
  }
  using am::pipeline::Action;
  using am::pipeline::Kind;
  Schedule schedule{.name = "none", .microbatches = count, .owners = {0}, .ranks = {{}}};
  for (int32_t m = 0; m < count; ++m) {
    schedule.ranks[0].emplace_back(Action{Kind::kForward, 0, m});
    schedule.ranks[0].emplace_back(Action{Kind::kBackward, 0, m});
  }
  return schedule;
}

std::optional<Schedule> read_schedule(const std::string& file, int64_t pp, am::Diagnostics& found) {
  auto csv = am::pipeline::parse_csv(am::read_file(file), file, found);
  if (!csv.has_value()) return std::nullopt;
  if (csv->schedule.pp() != pp) {
    found.error(
        "schedule.plan", am::Span{.file = file},
        am::cat("the file has ", csv->schedule.pp(), csv->schedule.pp() == 1 ? " rank" : " ranks",
                ", but the plan has pp_size = ", pp),
        am::cat("--set mesh.pp_size=", csv->schedule.pp()));
    return std::nullopt;
  }
  return std::move(csv->schedule);
}

std::optional<Answer> find_answer(const ScheduleOptions& options, const PlanInput& input,
                                  am::Diagnostics& found) {
  const int64_t pp = input.layout.mesh.sizes().pp;
  const int64_t per_step =
      am::config::batch_shape(input.plan, input.layout.mesh.sizes().dp()).micro_batches;
  Answer answer;
  std::optional<Schedule> schedule;
  if (!options.from_csv.empty()) {
    schedule = read_schedule(options.from_csv, pp, found);
  } else if (pp == 1) {
    answer.has_pipeline = false;
    schedule = micro_batches_in_order(per_step, found);
  } else {
    const int64_t dp = input.layout.mesh.sizes().dp();
    schedule = am::pipeline::make_schedule(am::layout::pipeline_shape(input.plan, pp, dp));
  }
  if (!schedule.has_value()) return std::nullopt;
  answer.schedule = *std::move(schedule);
  answer.per_step = per_step;
  if (per_step % answer.schedule.microbatches == 0) {
    answer.rounds = per_step / answer.schedule.microbatches;
  }
  answer.timeline = am::pipeline::simulate(
      answer.schedule, am::pipeline::Durations::even(answer.schedule.stages(), pp));
  return answer;
}

am::Json to_json(const Answer& answer) {
  am::Json ranks = am::Json::array();
  for (const auto& list : answer.schedule.ranks) {
    am::Json actions = am::Json::array();
    for (const auto& slot : list) {
      if (!slot.is_bubble()) actions.push_back(to_string(slot));
    }
    ranks.push_back(std::move(actions));
  }
  am::Json json = am::Json::object();
  json["schedule"] = answer.schedule.name;
  json["stages"] = answer.schedule.stages();
  json["stage_ranks"] = answer.schedule.owners;
  json["microbatches"] = answer.schedule.microbatches;
  json["rounds_per_step"] = answer.rounds ? am::Json(*answer.rounds) : am::Json();
  json["makespan"] = answer.timeline.makespan;
  json["bubble_fraction"] = answer.timeline.bubble_fraction;
  json["idle"] = answer.timeline.idle;
  json["peak_in_flight"] = answer.timeline.peak_in_flight;
  json["ranks"] = std::move(ranks);
  return json;
}

std::string counted(int64_t count, const char* what, const char* plural) {
  return am::cat(count, " ", what, count == 1 ? "" : plural);
}

std::string title(const Answer& answer) {
  const Schedule& schedule = answer.schedule;
  return am::cat(answer.has_pipeline ? schedule.name : "no pipeline", ": ",
                 counted(schedule.stages(), "stage", "s"), " on ",
                 counted(schedule.pp(), "rank", "s"), ", ",
                 counted(schedule.microbatches, "micro-batch", "es"));
}

std::string percent(double part, double whole) {
  return am::format_fixed(whole > 0.0 ? 100.0 * part / whole : 0.0, 1) + " %";
}

std::string stages_of(const Schedule& schedule, size_t rank) {
  std::vector<int64_t> stages;
  for (size_t stage = 0; stage < schedule.owners.size(); ++stage) {
    if (schedule.owners[stage] == static_cast<int64_t>(rank)) {
      stages.push_back(static_cast<int64_t>(stage));
    }
  }
  return am::join(stages, ", ");
}

std::string rank_table(const Answer& answer, const am::term::Style& style) {
  constexpr size_t kMostRows = 32;
  am::term::Table table({{"rank", am::term::Align::kRight},
                         {"stages", am::term::Align::kWrap},
                         {"most in flight", am::term::Align::kRight},
                         {"idle", am::term::Align::kRight}});
  const size_t ranks = answer.schedule.ranks.size();
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (ranks > kMostRows && rank == kMostRows / 2) {
      table.add({"..."});
      rank = ranks - kMostRows / 2;
    }
    table.add({std::to_string(rank), stages_of(answer.schedule, rank),
               std::to_string(answer.timeline.peak_in_flight[rank]),
               percent(answer.timeline.idle[rank], answer.timeline.makespan)});
  }
  return table.text(style);
}

std::string report(const Answer& answer, const am::term::Style& style) {
  std::string text =
      am::cat(style.paint(am::term::Role::kBold, title(answer)), "\n\n",
              am::draw::timeline_text(answer.timeline, style), "\n", rank_table(answer, style),
              "\nbubble ", percent(answer.timeline.bubble_fraction, 1.0), ", makespan ",
              am::format_general(answer.timeline.makespan, 6),
              ": one unit is the forward of a rank's layers, and a backward takes "
              "two\n");
  if (answer.has_pipeline && answer.rounds != 1) {
    text += am::cat("a step has ", answer.per_step, " micro-batches, ",
                    answer.rounds ? am::cat("so it runs this schedule ", *answer.rounds, " times\n")
                                  : am::cat("which is no multiple of this schedule's ",
                                            answer.schedule.microbatches, "\n"));
  }
  if (!answer.has_pipeline) {
    text += "no pipeline (pp_size = 1): every rank runs its micro-batches one after the other\n";
  }
  return text;
}

// Writes the files that the options name. Called before the report is printed, so that no report is
// printed if a file cannot be written.
void write_files(const ScheduleOptions& options, const Answer& answer) {
  if (!options.svg.empty()) {
    am::write_file_atomically(options.svg, am::draw::timeline_svg(answer.timeline, title(answer)));
  }
  if (!options.trace.empty()) {
    am::write_file_atomically(options.trace, am::draw::to_chrome_trace(answer.timeline));
  }
  if (!options.csv.empty()) {
    am::write_file_atomically(options.csv, am::pipeline::to_csv(answer.schedule));
  }
}

int run_schedule(const PlanOptions& plan, const ScheduleOptions& options, const Output& output) {
  int status = am_apps::kFine;
  const auto input = load_input(plan, output, status);
  if (!input.has_value()) return status;
  am::Diagnostics found;
  const auto answer = find_answer(options, *input, found);
  if (!answer.has_value()) return am_apps::refuse(found, output);
  write_files(options, *answer);
  if (output.json) {
    am_apps::print(to_json(*answer));
  } else {
    print_folded(report(*answer, output.out), output.out);
  }
  return am_apps::kFine;
}

Run declare_schedule(CLI::App& command, SharedOptions& shared) {
  auto options = std::make_shared<ScheduleOptions>();
  add_plan(command, shared);
  add_output_file(command, shared, {"--svg", "FILE", "Write the timeline as an SVG file"},
                  options->svg);
  add_output_file(command, shared,
                  {"--trace", "FILE", "Write the timeline as a Chrome trace, for Perfetto"},
                  options->trace);
  add_output_file(command, shared, {"--csv", "FILE", "Write the order of passes as PyTorch's CSV"},
                  options->csv);
  add_option(command,
             {"--from-csv", "FILE", "Check and draw this CSV file instead of the plan's schedule"},
             options->from_csv);
  return [options, &shared](const Output& output) {
    return run_schedule(shared.plan, *options, output);
  };
}

}  // namespace

const Command kScheduleCommand = {
    .name = "schedule",
    .summary = "Draw the pipeline's timeline: who computes what, and when",
    .example = "am-plan schedule plan.toml --set pipeline.microbatches=16 --svg timeline.svg",
    .declare = declare_schedule,
};

}  // namespace am_plan
