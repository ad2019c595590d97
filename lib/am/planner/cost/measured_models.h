// The models of published runs, known by figures alone: a row of plans/measured/models.csv, or what
// a test job says of itself. From them a run's layers and its layout follow, as far as they are
// known.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "am/base/diagnostic.h"
#include "am/planner/cost/workload.h"

namespace am::planner {

// The figures of one model, from the table or from a row's notes.
struct Figures {
  double hidden = 0, layers = 0, heads = 0, kv_heads = 0, qk = 0, v = 0, width = 0, vocabulary = 0;
  bool gated = true, tied = false, biases = false;
  double experts = 0, taken = 0, expert_width = 0, shared_width = 0, moe_layers = 0;
  double q_rank = 0, kv_rank = 0, rope = 0;
  double learned_positions = 0;
};
ModelShape shape_of(const Figures& figures);

class MeasuredModels {
 public:
  // `text`: a table of plans/measured/models.csv's form.
  MeasuredModels(std::string_view text, Diagnostics& found);
  const Figures* find(const std::string& name) const;

 private:
  std::map<std::string, Figures> models_;
};

// Of a test job's notes, "L=32 h=6144 heads=48 ..." as keys and values; nothing where they say too
// little.
std::optional<Figures> figures_of_notes(const std::map<std::string, std::string>& notes);

// Fills the layout of a job whose model, axes and implementation are there. `checkpointed`: the
// share of its layers that its recomputation concerns.
void sketch_layout(const Figures& figures, double checkpointed, Workload& job);

}  // namespace am::planner
