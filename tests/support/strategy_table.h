// Strategies x options, each trained for a few steps on ranks of this process and compared with one
// rank, with the formulas of its messages and with the predictions of its memory.
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
  bool has_large = true;        // also has a larger model, for TableSize::kLarge
  std::string storage = "float32";
  int64_t accumulation = 1;   // micro-batches per step
  int64_t shorter = 0;        // positions by which sequences are shortened
  std::string frozen = "[]";  // model.freeze_params, also for the one rank
  std::string lora = {};      // [lora], also for the one rank
  std::string experts = {};   // [experts], likewise
  bool skewed = false;        // correction biases route all tokens to the first two experts
  // Memory and messages are measured with tokens routed to experts in turn, as predictions assume:
  // received bytes depend on the routing.
  bool measured_in_turn = false;
  double optimizer_eps = 1e-8;
  bool exact = true;        // computes in float32, like the one rank
  int64_t dp = 0;           // data-parallel ranks; 0: all
  bool has_formula = true;  // step_traffic covers all its messages
};

// Returns the bytes of operands that oneDNN packs for a bfloat16 matmul and that no allocator
// reports; they are visible only with models as small as the tables'. On a processor with matrix
// tiles (AMX), oneDNN packs more.
double packed_operands(const Combination& combination);

std::vector<Combination> combinations();

// kSmall for tests; kLarge for memory figures, which are inaccurate for small tensors.
enum class TableSize { kSmall, kLarge };

struct Row {
  // Norm of the difference from one rank's values, divided by the norm of those values.
  double gradients = 0;  // first step, all parameters
  double worst = 0;      // parameter with the largest difference
  std::string worst_name = {};
  double losses = 0;   // five steps
  double norms = 0;    // gradient norms in these steps
  double weights = 0;  // parameters after these steps
  Traffic sent;        // rank 0, the second step
  Traffic formula;
  // Bytes of tensors; the largest difference over the ranks.
  double peak_dry_run = 0;  // am-run --dry-run over the measured peak, minus 1
  double peak_planner = 0;  // am-plan memory, likewise
  double phases = 0;        // largest |difference| after a phase, over the peak
  int64_t peak_bytes = 0;   // measured, rank 0

  bool traffic_agrees() const { return sent == formula; }
};

Row run(const Combination& combination, TableSize size);

// A combination on stand-in devices compared with the same on the host; fields as in Row, without
// memory.
struct StandInRow {
  bool exact = false;  // float16: equal bit by bit
  double gradients = 0, losses = 0, norms = 0, weights = 0;
  double last_norm = 0;        // gradient norm of the last step
  bool same_messages = false;  // on rank 0
};

// Computes in float16 if the strategy supports it: the host has no nn/fused kernels for float16 and
// uses ATen's operators like any device, so both agree bit by bit. In float32 the host's kernels
// sum in another order.
StandInRow run_on_stand_ins(Combination combination);

// Two steps of a combination on stand-in devices, in which rank 0's device ignores the n-th wait of
// a stream for another one; 0: none.
struct LostWait {
  uint64_t waits = 0;  // number of waits of rank 0's streams
  std::string races;   // the races that were found; empty: none
};
LostWait run_without_wait(Combination combination, uint64_t n);

// Measures only memory and messages: runs no further steps, and no single rank for comparison.
Row run_for_memory(const Combination& combination, TableSize size);

}  // namespace am::test
