// Phrases and number columns that several commands print.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/cluster/hardware.h"
#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"
#include "am/term/style.h"

namespace am_plan {

// Returns the mesh as text, for example "16 ranks = dp_shard 8 x tp 2". Axes of size 1 are omitted.
std::string mesh_text(const am::mesh::MeshSizes& sizes, const am::term::Style& style);

// Returns the model's type and size, for example "llama, 8.03 B parameters".
std::string model_text(const am::model::ModelConfig& config, int64_t parameters);

// Formats a column of byte counts in one unit, which the largest count determines: GiB from 1 GiB
// on, MiB from 1 MiB on, otherwise KiB.
class ByteColumn {
 public:
  explicit ByteColumn(int64_t largest);
  // Returns the count in the column's unit, for example "7.48 GiB". A count that would be printed
  // as "0.00 GiB" is printed in a smaller unit.
  std::string text(int64_t bytes) const;

 private:
  double unit_;
  const char* name_;
};

// Returns a sentence about the GPU that a prediction assumes because the plan names no GPU.
std::string assumed_gpu_text(const am::cluster::Gpu& gpu);

// Returns the text with its lines broken at blanks, so that each line has at most `width` columns
// or consists of one longer word. Empty lines, which separate paragraphs, are kept.
std::string wrap(const std::string& paragraphs, int width);

// Prints the text to stdout. Lines wider than `style` allows are broken between words.
void print_folded(const std::string& text, const am::term::Style& style);

// Returns the plan's features that this version of am-run does not support, one short phrase each.
// If `model` is null, features that depend on the model are not examined.
std::vector<std::string> what_am_run_lacks(const am::config::Plan& plan,
                                           const am::model::ModelConfig* model);

}  // namespace am_plan
