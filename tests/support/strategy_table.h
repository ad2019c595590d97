// Compares training under each strategy and option with training on one rank. Each combination
// trains for a few steps, on ranks that are threads of this process. Its values are compared with
// those of one rank, its messages with formulas, and its memory with predictions.
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
  std::string toml;             // text of the sections [mesh] and [strategy]
  std::string model = "table";  // folder in tests/data, for example "table_experts"
  bool has_large = true;        // a larger model exists for TableSize::kLarge
  std::string storage = "float32";
  int64_t accumulation = 1;   // number of micro-batches per step
  int64_t shorter = 0;        // number of positions by which sequences are shortened
  std::string frozen = "[]";  // model.freeze_params; applies to the one rank too
  std::string lora = {};      // text of [lora]; applies to the one rank too
  std::string experts = {};   // text of [experts]; applies to the one rank too
  std::string train = {};     // further keys of [train]; apply to the one rank too
  double ema_decay = 0.0;     // optimizer.ema_decay; applies to the one rank too
  bool skewed = false;        // correction biases route all tokens to the first two experts
  // Memory and messages are measured in a second run whose tokens are routed to all experts in
  // turn, as the predictions assume, because the received bytes depend on the routing.
  bool measured_in_turn = false;
  double optimizer_eps = 1e-8;
  bool exact = true;        // computes in float32, as the one rank does
  int64_t dp = 0;           // number of data-parallel ranks; 0: all ranks
  bool has_formula = true;  // step_traffic computes all messages of the combination
};

// Returns the bytes of packed operands of a bfloat16 matmul, which oneDNN allocates without
// reporting them; 0 if the combination computes in float32. The bytes matter only because the
// models here are small. oneDNN packs more on a processor with matrix tiles (AMX).
double packed_operands(const Combination& combination);

std::vector<Combination> combinations();

// Size of the models: kSmall for tests, kLarge to measure memory, because measurements of small
// tensors are inaccurate.
enum class TableSize { kSmall, kLarge };

struct Row {
  // Relative differences: the norm of the difference from one rank's values, divided by the norm of
  // those values.
  double gradients = 0;  // gradients of all parameters in the first step
  double worst = 0;      // largest relative difference of one parameter's gradient
  std::string worst_name = {};
  double losses = 0;   // losses of five steps
  double norms = 0;    // gradient norms of five steps
  double weights = 0;  // parameters after five steps
  Traffic sent;        // measured messages of rank 0 in the second step
  Traffic formula;
  // Relative errors of predicted peaks (predicted / measured - 1): the largest error of all ranks.
  double peak_dry_run = 0;  // error of am-run --dry-run
  double peak_planner = 0;  // error of am-plan memory
  double phases = 0;        // error of the dry run's bytes after a phase, relative to the peak
  int64_t peak_bytes = 0;   // measured peak of rank 0

  bool traffic_agrees() const { return sent == formula; }
};

Row run(const Combination& combination, TableSize size);

// Differences between a combination on stand-in devices and on the host. The fields have the same
// meaning as Row's; memory is not compared.
struct StandInRow {
  bool exact = false;  // computes in float16, so gradients and losses must be equal bit by bit
  double gradients = 0, losses = 0, norms = 0, weights = 0;
  double last_norm = 0;  // gradient norm of the last step
  // Whether rank 0 sends the same messages as on the host, apart from the bytes of reserved memory
  // that each rank of a stand-in device also reports.
  bool same_messages = false;
};

// Runs the combination on stand-in devices and on the host, in float16 if the strategy supports it.
// In float16, gradients and losses must be equal bit by bit, because host and device both use
// ATen's operators: the host has no nn/fused kernels for float16. Gradient norms may differ by
// rounding, and then the weights too. In float32, the host's kernels sum in another order.
StandInRow run_on_stand_ins(Combination combination);

// Result of two steps on stand-in devices. Rank 0's device ignores the n-th wait of a stream for
// another stream; for n = 0, it ignores none.
struct LostWait {
  uint64_t waits = 0;  // number of waits of rank 0's streams for another stream
  std::string races;   // description of the races that were found; empty without a race
};
LostWait run_without_wait(Combination combination, uint64_t n);

// Measures memory and messages only: stops after the measured step, and runs no single rank for
// comparison.
Row run_for_memory(const Combination& combination, TableSize size);

}  // namespace am::test
