#include "am/draw/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/draw/markup.h"
#include "am/predict/time/evidence.h"

namespace am::draw {
namespace {

// Fill colours of bars and pipeline stages. They are legible on light and dark pages and can be
// distinguished with red-green colour blindness.
constexpr std::array<const char*, 8> kColours = {"#4477aa", "#ee6677", "#228833", "#ccbb44",
                                                 "#66ccee", "#aa3377", "#999999", "#dd8844"};

constexpr const char* kStyle =
    "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse}"
    "td,th{padding:.15em .8em;text-align:left;border-bottom:1px solid #8884}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto}"
    "svg text{font:11px system-ui,sans-serif;fill:currentColor}.key{display:inline-block;"
    "width:.8em;height:.8em;margin:0 .3em 0 1em}@media(prefers-color-scheme:dark){body{"
    "background:#111;color:#ddd}}</style>";

std::string rect(double x, double y, double width, double height, const char* colour,
                 const std::string& title) {
  return cat("<rect x=\"", number(x), "\" y=\"", number(y), "\" width=\"", number(width),
             "\" height=\"", number(height), "\" fill=\"", colour, "\"><title>", escaped(title),
             "</title></rect>\n");
}

std::string text_at(double x, double y, const std::string& text) {
  return cat("<text x=\"", number(x), "\" y=\"", number(y), "\">", escaped(text), "</text>\n");
}

std::string svg(double width, double height, const std::string& body) {
  return cat("<svg viewBox=\"0 0 ", number(width), " ", number(height), "\" width=\"",
             number(width), "\" role=\"img\">\n", body, "</svg>\n");
}

struct Part {
  std::string name;
  double value = 0;
};

// Returns a stacked bar chart with a legend: one bar per row, made of the row's parts side by side.
std::string stacked(const std::vector<std::pair<std::string, std::vector<Part>>>& rows,
                    const std::function<std::string(double)>& format) {
  constexpr double kLabel = 90, kWidth = 760, kRow = 24;
  double largest = 0;
  for (const auto& [label, parts] : rows) {
    double sum = 0;
    for (const Part& part : parts) sum += part.value;
    largest = std::max(largest, sum);
  }
  if (largest <= 0) return {};
  std::string body;
  double y = 0;
  for (const auto& [label, parts] : rows) {
    double x = kLabel;
    double sum = 0;
    body += text_at(0, y + 15, label);
    for (size_t i = 0; i < parts.size(); ++i) {
      const double width = parts[i].value / largest * kWidth;
      body += rect(x, y + 3, width, kRow - 8, kColours[i % kColours.size()],
                   cat(parts[i].name, ": ", format(parts[i].value)));
      x += width;
      sum += parts[i].value;
    }
    body += text_at(x + 6, y + 15, format(sum));
    y += kRow;
  }
  std::string key = "<p>";
  const auto& parts = rows.front().second;
  for (size_t i = 0; i < parts.size(); ++i) {
    key += cat("<span class=\"key\" style=\"background:", kColours[i % kColours.size()],
               "\"></span>", escaped(parts[i].name));
  }
  return svg(kLabel + kWidth + 100, y, body) + key + "</p>\n";
}

std::string mesh_picture(const ReportInput& input) {
  constexpr int64_t kMostRanks = 1024;
  constexpr double kCell = 22;
  const mesh::MeshLayout& mesh = input.layout.mesh;
  const int64_t shown = std::min(mesh.world_size(), kMostRanks);
  const int64_t node = std::clamp<int64_t>(input.plan.mesh.ranks_per_node, 1, shown);
  // A node is a block of squares, in one row if it has at most kMostColumns ranks.
  constexpr int64_t kMostColumns = 32;
  int64_t node_columns = std::min(node, kMostColumns);
  while (node % node_columns != 0) --node_columns;
  const int64_t node_rows = node / node_columns;
  const int64_t nodes_in_row = kMostColumns / node_columns;
  const auto place = [](int64_t cells, int64_t nodes_before) {
    return static_cast<double>(cells) * kCell + static_cast<double>(nodes_before) * 8;
  };
  std::string body;
  for (int64_t rank = 0; rank < shown; ++rank) {
    const auto at = mesh.coordinate(rank);
    const int64_t across = rank / node % nodes_in_row;
    const int64_t down = rank / node / nodes_in_row;
    const int64_t local = rank % node;
    const double x = place(across * node_columns + local % node_columns, across);
    const double y = place(down * node_rows + local / node_columns, node_rows > 1 ? down : 0);
    std::string title = cat("rank ", rank, ", node ", rank / node);
    for (size_t i = 0; i < mesh::kAxes.size(); ++i) {
      if (mesh.sizes().size(mesh::kAxes[i]) > 1) {
        title += cat(", ", mesh::to_string(mesh::kAxes[i]), " ", at[i]);
      }
    }
    body += rect(x, y, kCell - 3, kCell - 3, kColours[static_cast<size_t>(at[0]) % kColours.size()],
                 title);
  }
  std::string note = "<p>Squares are ranks, blocks are nodes, colours are indices along pp.";
  if (shown < mesh.world_size()) {
    note += cat(" The first ", shown, " of ", mesh.world_size(), " ranks.");
  }
  const int64_t nodes = (shown + node - 1) / node;
  const int64_t across = std::min(nodes, nodes_in_row);
  const int64_t down = (nodes + nodes_in_row - 1) / nodes_in_row;
  return svg(place(across * node_columns, across),
             place(down * node_rows, node_rows > 1 ? down : 0), body) +
         note + "</p>\n";
}

std::string mesh_table(const ReportInput& input) {
  const mesh::MeshSizes& sizes = input.layout.mesh.sizes();
  std::string text = "<table><tr><th>axis<th>ranks<th>stride<th></tr>\n";
  int64_t stride = 1;
  for (size_t i = mesh::kAxes.size(); i-- > 0;) {
    const int64_t size = sizes.size(mesh::kAxes[i]);
    if (size > 1) {
      const bool crosses = stride * size > input.plan.mesh.ranks_per_node;
      text += cat("<tr><td>", mesh::to_string(mesh::kAxes[i]), "<td class=n>", size, "<td class=n>",
                  stride, "<td>", crosses ? "crosses nodes" : "within a node", "</tr>\n");
    }
    stride *= size;
  }
  return text + "</table>\n";
}

std::vector<Part> parts_of(const predict::MemoryComponents& memory) {
  const auto part = [](const char* name, int64_t bytes) {
    return Part{name, static_cast<double>(bytes)};
  };
  return {part("parameters", memory.parameters),
          part("gradients", memory.gradients),
          part("optimizer", memory.optimizer),
          part("activations", memory.activations),
          part("logits", memory.logits),
          part("unsharded", memory.unsharded),
          part("communication", memory.communication),
          part("other", memory.other)};
}

std::string memory_section(const ReportInput& input) {
  std::vector<std::pair<std::string, std::vector<Part>>> rows;
  for (const predict::RankMemory& stage : input.stages) {
    rows.emplace_back(cat("rank ", stage.rank), parts_of(stage.components));
  }
  constexpr size_t kMostRows = 32;
  std::string note;
  if (rows.size() > kMostRows) {
    note = cat("<p>The first ", kMostRows, " of ", rows.size(), " indices.</p>\n");
    rows.resize(kMostRows);
  }
  return stacked(rows, [](double bytes) { return format_bytes(static_cast<int64_t>(bytes)); }) +
         note;
}

std::string between(const predict::Prediction& prediction) {
  if (!prediction.interval) return {};
  return cat(", between ", format_step_time(prediction.interval->low), " and ",
             format_step_time(prediction.interval->high));
}

std::string time_section(const predict::Prediction& prediction) {
  const predict::StepTime& t = prediction.time;
  const std::vector<Part> parts = {{"matrix products", t.products},
                                   {"attention", t.attention},
                                   {"memory-bound, kernel launches", t.memory_bound + t.launching},
                                   {"tp, cp, ep", t.tp + t.cp + t.ep},
                                   {"bubble and hops", t.bubble + t.pp},
                                   {"dp", t.dp},
                                   {"optimizer", t.optimizer},
                                   {"fixed", t.fixed}};
  std::string text = cat(
      "<p>", format_step_time(t.seconds), " per step", between(prediction), "; ",
      format_short_count(prediction.tokens_per_second_per_gpu), " tokens/s per GPU, MFU ",
      format_fixed(100.0 * prediction.mfu, 1), " % of ", escaped(prediction.assumptions.gpu.name),
      prediction.assumptions.gpu_is_assumed ? " (assumed: cluster.gpu is not set)" : "",
      ", run by ", prediction.workload.implementation->name, " in ",
      name_of(prediction.workload.format), ".",
      prediction.basis.empty() ? "" : cat(" ", escaped(prediction.basis), "."), "</p>\n");
  text += stacked({{"step", parts}}, [](double seconds) { return format_step_time(seconds); });
  if (prediction.nearest.empty()) return text;
  text += "<table><tr><th>nearest measured runs<th>GPU<th>ranks<th>measured<th>predicted</tr>\n";
  for (const predict::NearestRun& near : prediction.nearest) {
    text += cat("<tr><td>", escaped(near.run.model), " (", escaped(near.run.source), ")<td>",
                near.run.gpu.name, "<td class=n>", near.run.workload.world(), "<td class=n>",
                format_step_time(*near.run.seconds), "<td class=n>",
                format_step_time(near.predicted), "</tr>\n");
  }
  return text + "</table>\n";
}

// Whether the parameter belongs to an expert other than expert 0, for example
// "model.layers.0.mlp.experts.12.up_proj.weight".
bool is_other_expert(std::string_view name) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t at = name.find(kExperts);
  if (at == std::string_view::npos) return false;
  const std::string_view number = name.substr(at + kExperts.size());
  return !number.empty() && number.front() >= '0' && number.front() <= '9' &&
         !number.starts_with("0.");
}

// Returns a table of parameters and their shards. The table contains the parameters outside of
// layers. As examples of all layers and experts, it also contains layer 0, with expert 0 only.
std::string shard_table(const ReportInput& input) {
  std::string text =
      "<table><tr><th>parameter<th>shape<th>placements<th>shard on its first rank</tr>\n";
  const layout::Layout& layout = input.layout;
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const layout::ParameterLayout& parameter = layout.parameters[i];
    const int layer = layout.inventory.parameters[i].layer;
    if (layer > 0 || is_other_expert(parameter.name)) continue;
    const int64_t rank = layout.first_holder(parameter);
    std::vector<std::string> placements;
    for (const auto& [group, placement] : parameter.placements(layout.mesh)) {
      placements.push_back(cat(group, ": ", to_string(placement)));
    }
    text += cat("<tr><td>", escaped(parameter.name), "<td>", shape_text(parameter.shape), "<td>",
                join(placements, ", "), "<td>", shape_text(parameter.own_shape(layout.mesh, rank)),
                "</tr>\n");
  }
  return text + "</table>\n";
}

// Draws the Pareto front of the search as circles and the plan as a square. The horizontal axis is
// the peak memory of a rank, the vertical axis the step time.
std::string pareto_picture(const ReportInput& input) {
  constexpr double kWidth = 640, kHeight = 280, kMargin = 60;
  const predict::SearchResult& search = *input.search;
  double most_bytes = 0, most_seconds = 0;
  const auto look = [&](double bytes, double seconds) {
    most_bytes = std::max(most_bytes, bytes);
    most_seconds = std::max(most_seconds, seconds);
  };
  int64_t worst = 0;
  for (const predict::RankMemory& stage : input.stages) {
    worst = std::max(worst, stage.components.total());
  }
  const double own_bytes = static_cast<double>(worst);
  look(own_bytes, input.prediction.time.seconds);
  for (const predict::FoundLayout& found : search.pareto) {
    look(static_cast<double>(found.peak_bytes), found.step_seconds);
  }
  const auto x = [&](double bytes) { return kMargin + bytes / most_bytes * kWidth; };
  const auto y = [&](double seconds) { return 10 + (1.0 - seconds / most_seconds) * kHeight; };
  std::string body = cat("<path d=\"M", kMargin, " 10V", 10 + kHeight, "H", kMargin + kWidth,
                         "\" fill=\"none\" stroke=\"currentColor\"/>\n");
  body += text_at(kMargin + kWidth - 90, kHeight + 28,
                  cat("memory, ", format_bytes(static_cast<int64_t>(most_bytes))));
  body += text_at(0, 18, format_step_time(most_seconds));
  for (const predict::FoundLayout& found : search.pareto) {
    const config::MeshSection& mesh = found.plan.mesh;
    body += cat("<circle cx=\"", number(x(static_cast<double>(found.peak_bytes))), "\" cy=\"",
                number(y(found.step_seconds)), "\" r=\"6\" fill=\"", kColours[0], "\"><title>",
                cat("tp ", mesh.tp_size, ", pp ", mesh.pp_size, ", cp ", mesh.cp_size,
                    ", micro-batch ", found.plan.train.micro_batch_size, ": ",
                    format_step_time(found.step_seconds), ", ", format_bytes(found.peak_bytes)),
                "</title></circle>\n");
  }
  body += rect(x(own_bytes) - 6, y(input.prediction.time.seconds) - 6, 12, 12, kColours[1],
               "this plan");
  return svg(kWidth + 2 * kMargin, kHeight + 40, body) +
         cat("<p>Circles: for each amount of memory, the fastest of the ", search.considered,
             " layouts that were considered. The square is this plan.</p>\n");
}

}  // namespace

std::string html_report(const ReportInput& input) {
  const std::string title = cat(std::filesystem::path(input.plan.file).filename().string(), ": ",
                                input.layout.mesh.world_size(), " ranks, ", input.model.model_type);
  std::string page = cat("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n<title>",
                         escaped(title), "</title>\n", kStyle, "\n<h1>", escaped(title), "</h1>\n");
  page += "<h2>Mesh</h2>\n" + mesh_picture(input) + mesh_table(input);
  page += "<h2>Memory of the rank with the largest peak, per index along pp</h2>\n" +
          memory_section(input);
  page += "<h2>Time</h2>\n" + time_section(input.prediction);
  if (!input.timeline_svg.empty()) page += "<h2>Pipeline</h2>\n" + input.timeline_svg;
  if (input.search != nullptr && !input.search->pareto.empty()) {
    page += "<h2>Memory and time of other layouts</h2>\n" + pareto_picture(input);
  }
  page += "<h2>Shards</h2>\n" + shard_table(input);
  return page + "</html>\n";
}

}  // namespace am::draw
