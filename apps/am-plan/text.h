// Phrases and number columns that several commands print.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"
#include "am/term/style.h"

namespace am_plan {

// Returns "16 ranks = dp_shard 8 x tp 2"; axes of size 1 are omitted.
std::string mesh_text(const am::mesh::MeshSizes& sizes, const am::term::Style& style);

// "llama, 8.03 B parameters"
std::string model_text(const am::model::ModelConfig& config, int64_t parameters);

// One unit for a column of byte counts: GiB if the largest is at least 1 GiB, else MiB, else KiB.
class ByteColumn {
 public:
  explicit ByteColumn(int64_t largest);
  // "7.48 GiB"
  std::string text(int64_t bytes) const;

 private:
  double unit_;
  const char* name_;
};

// Breaks paragraphs (separated by empty lines) at blanks into lines of at most `width` columns.
std::string wrap(const std::string& paragraphs, int width);

// Prints to stdout; lines wider than the style are broken between words.
void print_folded(const std::string& text, const am::term::Style& style);

// Returns the features of the plan that this version of am-run cannot run, as short phrases.
std::vector<std::string> what_am_run_lacks(const am::config::Plan& plan,
                                           const am::model::ModelConfig* model);

}  // namespace am_plan
