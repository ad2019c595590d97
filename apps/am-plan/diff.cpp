// am-plan diff A B: prints the differences between two plans, and leaves out equal values.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/job/plan_difference.h"
#include "am/job/shard_difference.h"
#include "am/predict/memory/stage_memory.h"
#include "am/predict/time/prediction.h"
#include "am/term/table.h"
#include "commands.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

struct DiffOptions {
  std::string a;
  std::string b;
};

using am::predict::MemoryComponents;
using am::predict::RankMemory;

// A quantity that is compared, with its values under plan A and plan B.
struct Pair {
  std::string name;
  double a = 0.0;
  double b = 0.0;
};

struct Both {
  std::vector<am::job::PlanDifference> plan;
  std::vector<Pair> mesh;
  std::vector<Pair> memory;         // bytes by component, of each plan's rank with the highest peak
  std::vector<Pair> communication;  // bytes that a rank sends per step, by kind of communication
  std::vector<Pair> cost;           // "step_seconds", "tokens_per_second_per_gpu", "mfu"
  std::vector<am::job::ShardDifference> shards;
  bool same_model = true;
};

std::vector<Pair> mesh_of(const PlanInput& a, const PlanInput& b) {
  const am::mesh::MeshSizes x = a.layout.mesh.sizes();
  const am::mesh::MeshSizes y = b.layout.mesh.sizes();
  std::vector<Pair> out = {
      {"ranks", static_cast<double>(x.world_size()), static_cast<double>(y.world_size())}};
  for (const am::mesh::Axis axis : am::mesh::kAxes) {
    out.push_back({am::mesh::to_string(axis), static_cast<double>(x.size(axis)),
                   static_cast<double>(y.size(axis))});
  }
  out.push_back({"ep", static_cast<double>(x.ep), static_cast<double>(y.ep)});
  return out;
}

RankMemory worst_rank(const PlanInput& input) {
  return am::predict::peak_of(am::predict::memory_of_stages(input.plan, input.model, input.layout));
}

std::vector<Pair> memory_of(const PlanInput& a, const PlanInput& b) {
  const MemoryComponents x = worst_rank(a).components;
  const MemoryComponents y = worst_rank(b).components;
  const auto pair = [](const char* name, int64_t one, int64_t other) {
    return Pair{name, static_cast<double>(one), static_cast<double>(other)};
  };
  return {pair("parameters", x.parameters, y.parameters),
          pair("gradients", x.gradients, y.gradients),
          pair("optimizer", x.optimizer, y.optimizer),
          pair("activations", x.activations, y.activations),
          pair("logits", x.logits, y.logits),
          pair("unsharded", x.unsharded, y.unsharded),
          pair("communication", x.communication, y.communication),
          pair("other", x.other, y.other),
          pair("peak_bytes", x.total(), y.total())};
}

bool add_cost(const PlanInput& a, const PlanInput& b, Both& out, am::Diagnostics& found) {
  const auto x = am::predict::predict_step(a.plan, a.model, a.layout, 0, found);
  const auto y = am::predict::predict_step(b.plan, b.model, b.layout, 0, found);
  if (!x.has_value() || !y.has_value()) return false;
  const auto& p = x->time.bytes;
  const auto& q = y->time.bytes;
  out.communication = {{"tp", p.tp, q.tp},
                       {"cp", p.cp, q.cp},
                       {"ep", p.ep, q.ep},
                       {"pp", p.pp, q.pp},
                       {"dp", p.dp, q.dp}};
  out.cost = {
      {"step_seconds", x->time.seconds, y->time.seconds},
      {"tokens_per_second_per_gpu", x->tokens_per_second_per_gpu, y->tokens_per_second_per_gpu},
      {"mfu", x->mfu, y->mfu}};
  return true;
}

void drop_equal(std::vector<Pair>& pairs) {
  pairs.erase(std::remove_if(pairs.begin(), pairs.end(),
                             [](const Pair& pair) {
                               const double most = std::max(std::abs(pair.a), std::abs(pair.b));
                               return std::abs(pair.a - pair.b) <= 1e-9 * most;
                             }),
              pairs.end());
}

std::optional<Both> compare(const PlanInput& a, const PlanInput& b, am::Diagnostics& found) {
  Both out;
  out.plan = am::job::differences(a.plan, b.plan);
  out.mesh = mesh_of(a, b);
  out.memory = memory_of(a, b);
  if (!add_cost(a, b, out, found)) return std::nullopt;
  out.same_model = am::job::same_model(a.layout, b.layout);
  if (out.same_model) out.shards = am::job::shard_differences(a.layout, b.layout);
  for (auto* pairs : {&out.mesh, &out.memory, &out.communication, &out.cost}) drop_equal(*pairs);
  return out;
}

// ---- JSON, for programs -----------------------------------------------------

am::Json integers(const std::vector<Pair>& pairs) {
  am::Json json = am::Json::object();
  for (const Pair& pair : pairs) {
    json[pair.name] = {{"a", std::llround(pair.a)}, {"b", std::llround(pair.b)}};
  }
  return json;
}

am::Json to_json(const Both& both) {
  am::Json json = am::Json::object();
  json["plan"] = am::Json::array();
  for (const auto& item : both.plan) {
    json["plan"].push_back({{"key", item.key}, {"a", item.a}, {"b", item.b}});
  }
  json["mesh"] = integers(both.mesh);
  json["memory"] = integers(both.memory);
  json["cost"] = am::Json::object();
  for (const Pair& pair : both.cost) json["cost"][pair.name] = {{"a", pair.a}, {"b", pair.b}};
  json["cost"]["communication"] = integers(both.communication);
  json["same_model"] = both.same_model;
  json["shards"] = am::Json::array();
  for (const auto& item : both.shards) {
    json["shards"].push_back(
        {{"pattern", item.pattern},
         {"times", item.times},
         {"shape", item.shape},
         {"a", {{"local_shape", item.a.local}, {"placements", item.a.placed}}},
         {"b", {{"local_shape", item.b.local}, {"placements", item.b.placed}}}});
  }
  return json;
}

// ---- text, for people -------------------------------------------------------

std::string json_text(const am::Json& value) {
  if (value.is_null()) return "-";
  return value.is_string() ? value.get<std::string>() : am::dump_json(value, -1);
}

std::string percent(const Pair& pair) {
  if (pair.a == 0.0) return "";
  const double change = 100.0 * (pair.b / pair.a - 1.0);
  return am::cat(change > 0 ? "+" : "", am::format_fixed(change, 1), " %");
}

using Format = std::function<std::string(double)>;

void add_rows(am::term::Table& table, const std::vector<Pair>& pairs, const Format& format) {
  for (const Pair& pair : pairs) {
    std::string a = format(pair.a);
    std::string b = format(pair.b);
    if (a != b) table.add({pair.name, std::move(a), std::move(b), percent(pair)});
  }
}

am::term::Table numbers(const char* title) {
  using am::term::Align;
  return am::term::Table(
      {{title}, {"a", Align::kRight}, {"b", Align::kRight}, {"change", Align::kRight}});
}

Format bytes_of(const std::vector<Pair>& pairs) {
  double largest = 0.0;
  for (const Pair& pair : pairs) largest = std::max({largest, pair.a, pair.b});
  return [column = ByteColumn(std::llround(largest))](double bytes) {
    return column.text(std::llround(bytes));
  };
}

std::string cost_text(const Both& both, const am::term::Style& style) {
  am::term::Table table = numbers("a step");
  for (const Pair& pair : both.cost) {
    if (pair.name == "step_seconds") {
      table.add(
          {"time", am::format_step_time(pair.a), am::format_step_time(pair.b), percent(pair)});
    } else if (pair.name == "mfu") {
      table.add({"MFU", am::format_fixed(100.0 * pair.a, 1) + " %",
                 am::format_fixed(100.0 * pair.b, 1) + " %", percent(pair)});
    } else {
      table.add({"tokens/s per GPU", am::format_short_count(pair.a), am::format_short_count(pair.b),
                 percent(pair)});
    }
  }
  return table.empty() ? "" : table.text(style) + "\n";
}

std::string shard_text(const Both& both, const am::term::Style& style) {
  am::term::Table table({{"parameter", am::term::Align::kWrap},
                         {"times", am::term::Align::kRight},
                         {"shape", am::term::Align::kWrap},
                         {"local shape in a", am::term::Align::kWrap},
                         {"in b", am::term::Align::kWrap},
                         {"placements in a", am::term::Align::kWrap},
                         {"in b", am::term::Align::kWrap}});
  for (const auto& item : both.shards) {
    table.add({item.pattern, item.times > 1 ? am::cat(item.times) : "", am::shape_text(item.shape),
               am::shape_text(item.a.local), am::shape_text(item.b.local), item.a.placed,
               item.b.placed});
  }
  return table.empty() ? "" : table.text(style) + "\n";
}

std::string report(const Both& both, const DiffOptions& options, const am::term::Style& style) {
  std::string text = am::cat("a: ", options.a, "\nb: ", options.b, "\n\n");
  const size_t head = text.size();
  am::term::Table keys({{"key", am::term::Align::kWrap},
                        {"a", am::term::Align::kWrap},
                        {"b", am::term::Align::kWrap}});
  for (const auto& item : both.plan) keys.add({item.key, json_text(item.a), json_text(item.b)});
  if (!keys.empty()) text += keys.text(style) + "\n";
  am::term::Table mesh = numbers("mesh");
  add_rows(mesh, both.mesh, [](double size) { return am::cat(std::llround(size)); });
  if (!mesh.empty()) text += mesh.text(style) + "\n";
  am::term::Table memory = numbers("worst rank");
  add_rows(memory, both.memory, bytes_of(both.memory));
  if (!memory.empty()) text += memory.text(style) + "\n";
  am::term::Table sent = numbers("sent by a rank in a step");
  add_rows(sent, both.communication, bytes_of(both.communication));
  if (!sent.empty()) text += sent.text(style) + "\n";
  text += cost_text(both, style) + shard_text(both, style);
  if (!both.same_model) text += "the plans have different models: shards are not compared\n";
  if (text.size() == head) return text + "the plans are the same\n";
  while (am::ends_with(text, "\n\n")) text.pop_back();
  return text;
}

int run_diff(const PlanOptions& of_both, const DiffOptions& options, const Output& output) {
  int status = am_apps::kFine;
  PlanOptions plan = of_both;
  plan.files = {options.a};
  const auto a = load_input(plan, output, status);
  if (!a.has_value()) return status;
  plan.files = {options.b};
  const auto b = load_input(plan, output, status);
  if (!b.has_value()) return status;
  am::Diagnostics found;
  const auto both = compare(*a, *b, found);
  if (!both.has_value()) return am_apps::refuse(found, output);
  if (output.json) {
    am_apps::print(to_json(*both));
  } else {
    print_folded(report(*both, options, output.out), output.out);
  }
  return am_apps::kFine;
}

Run declare_diff(CLI::App& command, SharedOptions& shared) {
  auto options = std::make_shared<DiffOptions>();
  add_option(command, {"A", "", "A plan file (TOML)", kRequired}, options->a);
  add_option(command, {"B", "", "Another plan file", kRequired}, options->b);
  add_overrides(command, shared);
  return
      [options, &shared](const Output& output) { return run_diff(shared.plan, *options, output); };
}

}  // namespace

const Command kDiffCommand = {
    .name = "diff",
    .summary = "Show what changes from one plan to another",
    .example = "am-plan diff before.toml after.toml",
    .declare = declare_diff,
};

}  // namespace am_plan
