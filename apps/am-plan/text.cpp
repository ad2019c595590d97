#include "text.h"

#include <array>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/layout/runs.h"
#include "am/term/printable.h"
#include "am/term/wrap.h"
#include "common/output.h"

namespace am_plan {

std::string mesh_text(const am::mesh::MeshSizes& sizes, const am::term::Style& style) {
  std::vector<std::string> axes;
  for (const am::mesh::Axis axis : am::mesh::kAxes) {
    if (sizes.size(axis) > 1)
      axes.push_back(am::cat(am::mesh::to_string(axis), " ", sizes.size(axis)));
  }
  const int64_t world = sizes.world_size();
  std::string ranks = am::cat(world, world == 1 ? " rank" : " ranks");
  if (axes.empty()) return ranks;
  const char* times = style.unicode ? " × " : " x ";
  std::string text = am::cat(ranks, " = ", am::join(axes, times));
  if (sizes.ep > 1) {
    const int64_t shards = world / (sizes.pp * sizes.ep * sizes.etp);
    text += am::cat(", experts over ep_shard ", shards, times, "ep ", sizes.ep);
    if (sizes.etp > 1) text += am::cat(times, "etp ", sizes.etp);
  }
  return text;
}

std::string model_text(const am::model::ModelConfig& config, int64_t parameters) {
  return am::cat(am::term::echo(config.model_type), ", ",
                 am::format_short_count(static_cast<double>(parameters)), " parameters");
}

ByteColumn::ByteColumn(int64_t largest) : unit_(1024.0), name_(" KiB") {
  if (static_cast<double>(largest) >= am::kGiB) {
    unit_ = am::kGiB;
    name_ = " GiB";
  } else if (static_cast<double>(largest) >= am::kMiB) {
    unit_ = am::kMiB;
    name_ = " MiB";
  }
}

std::string ByteColumn::text(int64_t bytes) const {
  const std::string text = am::format_fixed(static_cast<double>(bytes) / unit_, 2);
  return bytes > 0 && text == "0.00" ? am::format_bytes(bytes) : text + name_;
}

std::string assumed_gpu_text(const am::cluster::Gpu& gpu) {
  return am::cat("[cluster] gpu is not set: ", gpu.name, " is assumed.");
}

std::string wrap(const std::string& paragraphs, int width) {
  std::string out;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) out += line + "\n";
    line.clear();
  };
  for (const std::string& paragraph : am::split(paragraphs, '\n')) {
    if (paragraph.empty()) {
      flush();
      out += "\n";
      continue;
    }
    for (const std::string& word : am::split(paragraph, ' ')) {
      if (!line.empty() && am::display_width(line) + 1 + am::display_width(word) > width) flush();
      line += line.empty() ? word : " " + word;
    }
    flush();
  }
  return out;
}

void print_folded(const std::string& text, const am::term::Style& style) {
  am_apps::print(am::term::fold(text, style));
}

std::vector<std::string> what_am_run_lacks(const am::config::Plan& plan,
                                           const am::model::ModelConfig* model) {
  const auto limits =
      model != nullptr ? am::layout::limits_of(plan, *model) : am::layout::limits_of_plan(plan);
  std::vector<std::string> lacks;
  for (const am::layout::Limit& limit : limits) lacks.push_back(limit.what);
  return lacks;
}

}  // namespace am_plan
