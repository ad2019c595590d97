// Defines the commands `acts` and `experts`. `acts` runs a forward pass and reports statistics of
// the units' outputs. `experts` reports how many tokens were routed to each expert, in the last
// step or in a forward pass.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/text_argument.h"
#include "am/model/spec.h"
#include "am/term/bars.h"
#include "am/train/output_watch.h"
#include "am/values/commands/forward.h"
#include "am/values/commands/functions.h"
#include "am/values/language.h"
#include "am/values/moments.h"

namespace am::values {

std::optional<std::vector<int64_t>> prepare_forward(Session& session, const Arguments& arguments) {
  std::optional<inspect::TextArgument> of;
  if (arguments.has("--of")) of = inspect::text_or_file(session, arguments.value("--of", ""));
  prepare_model(session, arguments.has("--force"));
  return of ? std::optional(encode(session, of->text)) : std::nullopt;
}

std::string run_forward_of(Session& session, const std::optional<std::vector<int64_t>>& tokens) {
  if (!tokens) return values_of(session).forward_next_batch(session.between());
  forward_window(session, *tokens);
  return "of the text";
}

bool counts_here(const parallel::ParallelModel& model, bool is_text, bool is_sharded_over_tp) {
  const runtime::DeviceMesh& mesh = model.mesh();
  if (!is_sharded_over_tp && mesh.group("tp").index() > 0) return false;
  return !is_text || mesh.group("dp").index() == 0;
}

namespace {

using Tokens = std::optional<std::vector<int64_t>>;

// Statistics of the outputs of a unit.
struct OutputStatistics {
  std::string name;
  Moments moments;
  double zeros = 0.0;  // number of elements that are zero
};

// Statistics of units, by the unit's index in the forward of the full model (UnitOutput::place).
using OutputsOfUnits = std::map<int64_t, OutputStatistics>;

// Runs a forward pass. Returns the statistics of each unit's output over all ranks, and stores the
// description of the data in `of`. Collective.
OutputsOfUnits outputs_of(Session& session, const Tokens& tokens, std::string& of) {
  ParameterView& view = values_of(session);
  parallel::ParallelModel& model = view.runnable();
  const bool shards_sequences = view.length_multiple() > 1;
  OutputsOfUnits own;
  {
    std::vector<std::unique_ptr<train::OutputWatch>> watches;
    for (const auto& [number, stage] : model.stages()) {
      const bool shards_head = stage->vocabulary_slice().size < model.config().vocab_size;
      watches.push_back(std::make_unique<train::OutputWatch>(
          *stage, [&, shards_head](const train::UnitOutput& unit) {
            OutputStatistics& statistics = own[unit.place];
            statistics.name = unit.name;
            const bool is_sharded = unit.is_head ? shards_head : shards_sequences;
            if (!counts_here(model, tokens.has_value(), is_sharded)) return;
            statistics.moments.add(unit.output);
            statistics.zeros += static_cast<double>(unit.output.numel()) -
                                at::count_nonzero(unit.output).item<double>();
          }));
    }
    of = run_forward_of(session, tokens);
  }
  // The names of units are gathered, because each rank stores only the units of its own stages.
  Json names = Json::array();
  for (const auto& [place, statistics] : own) names.push_back({place, statistics.name});
  OutputsOfUnits all;
  for (const std::string& rank : model.mesh().group("world").all_gather_text(names.dump())) {
    for (const Json& each : Json::parse(rank)) all[each[0].get<int64_t>()].name = each[1];
  }
  constexpr int64_t kWidth = Moments::kWords + 1;
  const int64_t places = all.rbegin()->first + 1;
  at::Tensor numbers = at::zeros({places, kWidth}, at::kDouble);
  for (const auto& [place, statistics] : own) {
    auto* words = numbers[place].mutable_data_ptr<double>();
    const auto packed = statistics.moments.pack();
    std::copy(packed.begin(), packed.end(), words);
    words[Moments::kWords] = statistics.zeros;
  }
  const at::Tensor gathered = view.gather(numbers.reshape({-1})).contiguous();
  const auto* words = gathered.const_data_ptr<double>();
  for (int64_t rank = 0; rank < gathered.size(0); ++rank) {
    for (auto& [place, statistics] : all) {
      const double* row = words + (rank * places + place) * kWidth;
      const Moments moments = Moments::unpack(row);
      if (moments.numel == 0) continue;
      statistics.moments.merge(moments);
      statistics.zeros += row[Moments::kWords];
    }
  }
  return all;
}

// Returns whether `pattern` selects the unit named `unit`. A pattern is the unit's name, the last
// components of this name, a glob, or the name of a module that contains the unit.
bool selects(const std::string& pattern, const std::string& unit) {
  return pattern == unit || glob_match(pattern, unit) || starts_with(unit, pattern + ".") ||
         ends_with(unit, "." + pattern);
}

// Returns the number of tokens of the global batch that were routed to each expert in the last
// step. With `tokens`, or before the first step, counts the tokens of a new forward pass instead.
// Stores the description of the data in `of`. Collective.
std::vector<double> expert_counts_of(Session& session, const Tokens& tokens, std::string& of) {
  ParameterView& view = values_of(session);
  if (!tokens) {
    StepExperts last = view.last_experts();
    if (!last.counts.empty()) {
      of = cat("of step ", last.step);
      return std::move(last.counts);
    }
  }
  parallel::ParallelModel& model = view.runnable();
  model.take_expert_counts();  // drops the counts of earlier passes
  of = run_forward_of(session, tokens);
  std::vector<int64_t> own = model.take_expert_counts();
  if (!counts_here(model, tokens.has_value(), /*is_sharded_over_tp=*/true)) {
    std::fill(own.begin(), own.end(), 0);
  }
  std::vector<double> counts(own.size(), 0.0);
  for (const auto& rank : view.gather_numbers(own)) {
    for (size_t i = 0; i < rank.size(); ++i) counts[i] += static_cast<double>(rank[i]);
  }
  return counts;
}

}  // namespace

Result run_acts(Session& session, const Arguments& arguments) {
  const auto tokens = prepare_forward(session, arguments);
  std::string of;
  const OutputsOfUnits units = outputs_of(session, tokens, of);
  Rows rows({{"name"},
             {"rms", {}, RowKind::kNumber},
             {"max_abs", {}, RowKind::kNumber},
             {"zeros", {}, RowKind::kNumber},
             {"nan", {}, RowKind::kCount},
             {"inf", {}, RowKind::kCount}});
  std::string first;  // first unit whose output is not finite
  for (const auto& [place, unit] : units) {
    const Moments& moments = unit.moments;
    if (first.empty() && moments.finite() < moments.numel) first = unit.name;
    const bool selected =
        arguments.words.empty() ||
        std::any_of(arguments.words.begin(), arguments.words.end(),
                    [&, name = unit.name](const auto& word) { return selects(word, name); });
    if (!selected) continue;
    rows.add({{"name", unit.name},
              {"rms", number_or_null(moments.rms())},
              {"max_abs", number_or_null(moments.max_abs())},
              {"zeros", number_or_null(unit.zeros / static_cast<double>(moments.numel))},
              {"nan", moments.nan},
              {"inf", moments.inf}});
  }
  if (rows.list().empty()) {
    std::vector<std::string> names;
    for (const auto& [place, unit] : units) names.push_back(unit.name);
    throw Error(ErrorKind::kUsage, cat("no unit is named ", join(arguments.words, " ")),
                cat("the units are ", join(names, ", ")));
  }
  Result result;
  rows.give(result, "units", session);
  result.json["of"] = of;
  result.json["first_nonfinite"] = first.empty() ? Json(nullptr) : Json(first);
  result.text += cat("outputs ", of,
                     first.empty() ? "" : cat("; the first non-finite output is of ", first), "\n");
  return result;
}

Result run_experts(Session& session, const Arguments& arguments) {
  const auto text = prepare_forward(session, arguments);
  ParameterView& view = values_of(session);
  parallel::ParallelModel& model = view.runnable();
  if (!model.config().moe) {
    throw Error(ErrorKind::kUsage, "the model has no experts",
                "`acts` shows the outputs of its units");
  }
  std::string of;
  const std::vector<double> counts = expert_counts_of(session, text, of);
  const auto experts = static_cast<size_t>(model.config().moe->experts);
  const model::DecoderSpec& spec = model.layout().inventory.spec;
  Rows rows({{"layer", {}, RowKind::kCount},
             {"busiest", {}, RowKind::kText},
             {"idlest", {}, RowKind::kText},
             {"entropy", {}, RowKind::kNumber},
             {"dead", "without tokens", RowKind::kText},
             {"load", "tokens by expert", RowKind::kText}});
  Json layers = Json::array();
  size_t at = 0;
  for (int64_t layer = 0; layer < model.config().num_hidden_layers; ++layer) {
    if (!spec.layer(layer).router) continue;
    const std::span<const double> own(counts.data() + at, experts);
    at += experts;
    const double sum = std::accumulate(own.begin(), own.end(), 0.0);
    const double mean = sum / static_cast<double>(experts);
    const auto busiest =
        static_cast<size_t>(std::max_element(own.begin(), own.end()) - own.begin());
    const auto idlest = static_cast<size_t>(std::min_element(own.begin(), own.end()) - own.begin());
    double entropy = 0.0;
    std::vector<int64_t> tokens, dead;
    for (size_t e = 0; e < experts; ++e) {
      tokens.push_back(std::llround(own[e]));
      if (own[e] == 0.0) dead.push_back(static_cast<int64_t>(e));
      const double share = own[e] / sum;
      if (share > 0.0) entropy -= share * std::log(share) / std::log(static_cast<double>(experts));
    }
    const auto relative = [&](size_t expert) {
      return cat(expert, " (", format_fixed(own[expert] / mean, 2), "x)");
    };
    Json dead_list = dead;
    layers.push_back({{"layer", layer},
                      {"tokens_per_expert", tokens},
                      {"max_over_mean", number_or_null(own[busiest] / mean)},
                      {"min_over_mean", number_or_null(own[idlest] / mean)},
                      {"entropy", number_or_null(entropy)},
                      {"dead", dead_list}});
    rows.add({{"layer", layer},
              {"busiest", relative(busiest)},
              {"idlest", relative(idlest)},
              {"entropy", number_or_null(entropy)},
              {"dead", dead.empty() ? Json("") : dead_list},
              {"load", term::columns(tokens, session.style())}});
  }
  Result result;
  rows.give(result, "layers", session, layers);
  result.json["of"] = of;
  result.text += cat("tokens routed to each expert, ", of,
                     "; x: relative to the mean of the layer; entropy: 1 if all loads are equal\n");
  return result;
}

}  // namespace am::values
