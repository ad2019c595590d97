// The machine that predictions assume: one kind of GPU, its memory, and the links around it.
//
// Facts live in plans/clusters/NAME.toml and are built into the library; `[cluster] gpu` names one
// of them, or a file of the same form.
//
//   Diagnostics found;
//   const auto gpu = find_gpu("h100-sxm", {}, {}, found);
//   gpu->bf16_flops;                                     // 989e12
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::planner {

// Constants are fitted for each; a GPU of another maker borrows the nearest one's.
enum class GpuGeneration { kAmpere, kHopper, kBlackwell };

inline constexpr std::array<std::string_view, 6> kArchitectures = {"volta",     "ampere", "hopper",
                                                                   "blackwell", "cdna3",  "cdna4"};

struct Gpu {
  std::string name;
  std::string architecture;  // "hopper", one of kArchitectures; empty: as Ampere
  std::string source;        // of the figures
  std::vector<std::string> aliases;
  // Peaks of dense matrix products, operations a second; 0: the GPU has no such units.
  double bf16_flops = 0.0;
  double fp8_flops = 0.0;
  double fp4_flops = 0.0;
  double fp32_flops = 0.0;
  double memory_bytes = 0.0;      // all of it, as the driver reports it
  double memory_bandwidth = 0.0;  // bytes a second
  double link_bandwidth = 0.0;    // to the GPUs of its domain, bytes a second, one direction
  double link_domain = 1.0;       // GPUs that these links join
  double gpus_per_node = 8.0;
  double nic_bandwidth = 0.0;    // its share of its node's network, bytes a second
  double host_bandwidth = 32e9;  // to its host's memory, bytes a second, one direction

  GpuGeneration generation() const;
  bool has_bfloat16() const { return architecture != "volta"; }  // else bf16_flops are float16's
};

// The names that are built in, sorted.
std::vector<std::string> gpu_names();

// By name or alias, in any case, or from a TOML file (a text with a '/' or ".toml", relative to
// `folder`). Adds "cluster.gpu" or the file's own violations at `where`; nothing when there is one.
std::optional<Gpu> find_gpu(std::string_view name, const std::filesystem::path& folder,
                            const Span& where, Diagnostics& found);

}  // namespace am::planner
