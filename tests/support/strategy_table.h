// Strategies x options, each trained for a few steps on ranks of this process and held against one
// rank, against the formulas of its messages and against the predictions of its memory.
//
//   for (const auto& each : test::combinations()) {
//     const test::Row row = test::run(each, test::TableSize::kSmall);
//     row.gradients;  // |difference| / |one rank's|
//   }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/step_traffic.h"

namespace am::test {

struct Combination {
  std::string name;
  int64_t world = 1;
  std::string toml;             // [mesh], [strategy]
  std::string model = "table";  // under tests/data: "table_tied", "table_experts", "table_stacked"
  bool has_large = true;        // a larger model beside it, for TableSize::kLarge
  std::string storage = "float32";
  int64_t accumulation = 1;   // micro-batches a step
  int64_t shorter = 0;        // by so many positions are sequences
  std::string frozen = "[]";  // model.freeze_params, of the one rank too
  std::string lora = {};      // [lora], of the one rank too
  std::string experts = {};   // [experts], likewise
  bool skewed = false;        // correction biases have all tokens take the first two experts
  // Memory and messages are those of tokens that take experts in turn, as predictions have it: what
  // ranks receive depends on the routing.
  bool measured_in_turn = false;
  double optimizer_eps = 1e-8;
  bool exact = true;        // computes in float32, as the rank it is held against
  int64_t dp = 0;           // data-parallel ranks; 0: all
  bool has_formula = true;  // step_traffic knows all its messages
};

// Bytes of operands that oneDNN packs for a product in bfloat16, which nobody is told of; models as
// small as the tables' let it be seen. For a processor that multiplies in tiles it packs more.
double packed_operands(const Combination& combination);

std::vector<Combination> combinations();

// kSmall for tests; kLarge for figures of memory, which small tensors blur.
enum class TableSize { kSmall, kLarge };

struct Row {
  // Euclidean norm of the difference from one rank's over the norm of one rank's.
  double gradients = 0;  // of the first step, all parameters
  double worst = 0;      // of the parameter that is furthest
  std::string worst_name = {};
  double losses = 0;   // of five steps
  double norms = 0;    // of their gradients
  double weights = 0;  // after them
  Traffic sent;        // rank 0, the second step
  Traffic formula;
  // Bytes of tensors, rank by rank, the worst difference of any.
  double peak_dry_run = 0;  // of am-run --dry-run over what was measured, minus 1
  double peak_planner = 0;  // of am-plan memory, likewise
  double phases = 0;        // the largest |difference| after a phase, over the peak
  int64_t peak_bytes = 0;   // measured, rank 0

  bool traffic_agrees() const { return sent == formula; }
};

Row run(const Combination& combination, TableSize size);

// A combination on stand-in devices against the same on the host: as Row, but for memory.
struct StandInRow {
  bool exact = false;  // float16: every bit is the same
  double gradients = 0, losses = 0, norms = 0, weights = 0;
  double last_norm = 0;        // of the gradients of the last step
  bool same_messages = false;  // of rank 0
};

// Computes in float16 where the strategy can, as the host has no kernels of nn/fused for it and
// takes ATen's operators as any device does: both agree to the bit. In float32 the host's kernels
// add in another order.
StandInRow run_on_stand_ins(Combination combination);

// Memory and messages alone: no more steps than these need, and no rank to hold the values against.
Row run_for_memory(const Combination& combination, TableSize size);

}  // namespace am::test
