#include "am/cluster/implementation.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/cluster/embedded_files.h"
#include "am/config/value.h"

namespace am::cluster {
namespace {

using config::Value;

constexpr std::array<std::pair<std::string_view, bool Implementation::*>, 7> kFlags = {{
    {"overlaps_tp", &Implementation::overlaps_tp},
    {"unfused_attention", &Implementation::unfused_attention},
    {"old_launch", &Implementation::old_launch},
    {"eager", &Implementation::eager},
    {"states_in_storage", &Implementation::states_in_storage},
    {"pads_vocabulary", &Implementation::pads_vocabulary},
    {"any_schedule", &Implementation::any_schedule},
}};
constexpr std::array<std::pair<std::string_view, double Implementation::*>, 11> kBytes = {{
    {"reduce_bytes", &Implementation::reduce_bytes},
    {"parameter_bytes", &Implementation::parameter_bytes},
    {"gradient_bytes", &Implementation::gradient_bytes},
    {"optimizer_bytes", &Implementation::optimizer_bytes},
    {"hidden_bytes", &Implementation::hidden_bytes},
    {"gated_bytes", &Implementation::gated_bytes},
    {"plain_bytes", &Implementation::plain_bytes},
    {"logits_bytes", &Implementation::logits_bytes},
    {"logits_gradient_bytes", &Implementation::logits_gradient_bytes},
    {"mask_bytes", &Implementation::mask_bytes},
    {"reserved", &Implementation::reserved},
}};

void read(const config::Member& member, Implementation& row) {
  const Value& value = member.value;
  for (const auto& [name, flag] : kFlags) {
    if (member.key == name && value.kind == Value::Kind::kBoolean) {
      row.*flag = value.boolean;
      return;
    }
  }
  for (const auto& [name, bytes] : kBytes) {
    if (member.key == name && value.kind == Value::Kind::kNumber) {
      row.*bytes = value.number;
      return;
    }
  }
  if (member.key == "strategy") {
    row.strategy = value.text;
    return;
  }
  AM_ASSERT(member.key == "description",
            cat("implementations.toml: bad key ", row.name, ".", member.key));
  row.description = value.text;
}

const std::vector<Implementation>& table() {
  static const std::vector<Implementation> rows = [] {
    Diagnostics found;
    const auto root =
        config::read_toml(measured_file("implementations.toml"), "implementations.toml", found);
    AM_ASSERT(root.has_value(), "the built-in implementations.toml is not valid TOML");
    std::vector<Implementation> read_rows;
    for (const config::Member& section : root->members) {
      Implementation row;
      row.name = section.key;
      for (const config::Member& member : section.value.members) read(member, row);
      read_rows.push_back(std::move(row));
    }
    return read_rows;
  }();
  return rows;
}

}  // namespace

std::span<const Implementation> implementations() { return table(); }

std::vector<std::string> implementation_names() {
  std::vector<std::string> names;
  for (const Implementation& row : implementations()) names.push_back(row.name);
  return names;
}

const Implementation* find_implementation(std::string_view name) {
  const auto row = std::find_if(table().begin(), table().end(),
                                [name](const Implementation& one) { return one.name == name; });
  return row == table().end() ? nullptr : &*row;
}

const Implementation& automesh_implementation() { return table().front(); }

bool runs_megatron(const Implementation& implementation) {
  return !implementation.states_in_storage || &implementation == &automesh_implementation();
}

}  // namespace am::cluster
