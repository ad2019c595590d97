// Reads the orders in which PyTorch's pipeline schedules run their passes, from
// tests/data/schedules. scripts/fixtures/make_schedules.py writes these files.
#pragma once

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/pipeline/schedule.h"
#include "support/folders.h"

namespace am::test {

struct PytorchOrder {
  pipeline::PipelineShape shape;
  std::string form;  // "lowered": with communication; "refused": PyTorch raises; else ""
  std::vector<std::string> rows;  // one row per rank, as in PyTorch's CSV
};

inline std::vector<PytorchOrder> pytorch_orders(std::string_view name) {
  std::vector<PytorchOrder> orders;
  const std::string text = read_file(cat(kDataFolder, "/schedules/", name, ".txt"));
  for (const std::string& line : split(text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != '@') {
      orders.back().rows.push_back(line);
      continue;
    }
    PytorchOrder order;
    order.shape.schedule = name;
    std::istringstream head(line);
    std::string word;
    head >> word >> word >> order.shape.pp >> word >> order.shape.virtual_stages >> word >>
        order.shape.microbatches >> order.form;
    orders.push_back(order);
  }
  REQUIRE(orders.size() > 20);
  return orders;
}

inline std::string about(const pipeline::PipelineShape& shape) {
  return cat(shape.schedule, " pp ", shape.pp, " v ", shape.virtual_stages, " mb ",
             shape.microbatches);
}

// Returns a rank's list of passes as a row of PyTorch's CSV. Without `bubbles`, idle slots are
// omitted.
inline std::string row(const std::vector<pipeline::Slot>& list, bool bubbles = true) {
  std::vector<std::string> cells;
  for (const pipeline::Slot& slot : list) {
    if (bubbles || !slot.is_bubble()) cells.push_back(to_string(slot));
  }
  return join(cells, ",");
}

}  // namespace am::test
