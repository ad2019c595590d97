// Counts the memory and the collectives of one rank of a program that trains a torch module, for
// `am-run --dry-run --exec PROGRAM`. The program runs on the host, in a fake world (World::fake)
// whose collectives send nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "am/runtime/collective_count.h"
#include "am/runtime/world.h"
#include "am/tensor/memory_meter.h"

namespace am::parallel {

class ModuleDryRun {
 public:
  // Returns an object in a dry run: if the world is fake and the environment variable
  // launch::kDryRunVariable names the report's file. Returns null otherwise.
  static std::unique_ptr<ModuleDryRun> begin(const runtime::World& world);

  // `file`: the file to which the destructor writes the report.
  ModuleDryRun(const runtime::World& world, std::filesystem::path file);
  ModuleDryRun(const ModuleDryRun&) = delete;
  ModuleDryRun& operator=(const ModuleDryRun&) = delete;
  // Writes the report: a JSON object with "rank", "world_size", "passes" (number of backward
  // passes), "peak_bytes", "components" (bytes by use at the peak), "phases" (bytes of the live
  // tensors after the last forward pass and after the last backward pass) and "collectives" (the
  // collectives of the last pass: "op", "group", "bytes", "count").
  ~ModuleDryRun();

  // Must be called when a forward pass with gradients begins, when its backward pass begins, and
  // when the backward pass ends. Further calls of forward_begins() in the same pass do nothing.
  // Memory that is allocated between passes counts as the optimizer's.
  void forward_begins();
  void backward_begins();
  void backward_ends();

 private:
  runtime::World world_;
  std::filesystem::path file_;
  tensor::MemoryMeter meter_;
  std::optional<tensor::MemoryUse> between_;  // set between passes
  bool in_pass_ = false;
  int64_t passes_ = 0;
  int64_t after_forward_ = 0;
  int64_t after_backward_ = 0;
  std::vector<runtime::CollectiveCount> now_;   // collectives since the last pass began
  std::vector<runtime::CollectiveCount> last_;  // collectives of the last complete pass
};

}  // namespace am::parallel
