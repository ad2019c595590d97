// Hardware that predictions assume: a GPU model, its memory, and its links.
//
// The figures are in plans/clusters/NAME.toml and built into the library; `[cluster] gpu` names one
// of these, or a file in the same format.
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

namespace am::cluster {

// GPU generations for which the time model has fitted constants. Other architectures use the
// constants of the nearest generation.
enum class GpuGeneration { kAmpere, kHopper, kBlackwell };

inline constexpr std::array<std::string_view, 6> kArchitectures = {"volta",     "ampere", "hopper",
                                                                   "blackwell", "cdna3",  "cdna4"};

struct Gpu {
  std::string name;
  std::string architecture;  // "hopper", one of kArchitectures; empty: treated as Ampere
  std::string source;        // where the figures were published
  std::vector<std::string> aliases;
  // Peak rates of dense matmuls in FLOP/s; 0: the GPU has no such units.
  double bf16_flops = 0.0;
  double fp8_flops = 0.0;
  double fp4_flops = 0.0;
  double fp32_flops = 0.0;
  double memory_bytes = 0.0;      // total memory, as the driver reports it
  double memory_bandwidth = 0.0;  // bytes per second
  double link_bandwidth = 0.0;    // to GPUs of its link domain: bytes per second, one direction
  double link_domain = 1.0;       // number of GPUs that these links connect
  double gpus_per_node = 8.0;
  double nic_bandwidth = 0.0;  // the GPU's share of the node's network bandwidth: bytes per second
  double host_bandwidth = 32e9;  // to host memory: bytes per second, one direction

  GpuGeneration generation() const;
  // If false, bf16_flops is the float16 peak.
  bool has_bfloat16() const { return architecture != "volta"; }
};

// Built-in names, sorted.
std::vector<std::string> gpu_names();

// Finds a GPU by name or alias, case-insensitively, or reads a TOML file (`name` contains '/' or
// ".toml"; relative to `folder`). Adds "cluster.gpu" or the file's violations at `where`; returns
// nothing if there are any.
std::optional<Gpu> find_gpu(std::string_view name, const std::filesystem::path& folder,
                            const Span& where, Diagnostics& found);

}  // namespace am::cluster
