// Hardware that predictions assume: a GPU model, its memory, and its links.
//
// The files plans/clusters/NAME.toml contain the figures of common GPUs, and are built into the
// library. A plan's `[cluster] gpu` names one of these GPUs, or a file in the same format.
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

// GPU generations for which the time prediction has fitted constants. GPUs of other architectures
// use the constants of the most similar generation.
enum class GpuGeneration { kAmpere, kHopper, kBlackwell };

inline constexpr std::array<std::string_view, 6> kArchitectures = {"volta",     "ampere", "hopper",
                                                                   "blackwell", "cdna3",  "cdna4"};

struct Gpu {
  std::string name;
  std::string architecture;  // one of kArchitectures; empty: unknown, treated like Ampere
  std::string source;        // publication that contains the figures
  // Further names of the GPU in lower case. They usually include the name that the driver reports,
  // for example "nvidia h200".
  std::vector<std::string> aliases;
  // Peak rates of dense matmuls in FLOP/s; 0: the GPU does not support the number format.
  double bf16_flops = 0.0;
  double fp8_flops = 0.0;
  double fp4_flops = 0.0;
  double fp32_flops = 0.0;
  double memory_bytes = 0.0;      // total memory, as the driver reports it
  double memory_bandwidth = 0.0;  // bandwidth of the GPU's memory: bytes per second
  // Bandwidth of the links to the other GPUs of the link domain (NVLink or similar): bytes per
  // second in one direction.
  double link_bandwidth = 0.0;
  double link_domain = 1.0;  // number of GPUs in a link domain
  double gpus_per_node = 8.0;
  double nic_bandwidth = 0.0;  // the GPU's share of the node's network bandwidth: bytes per second
  double host_bandwidth = 32e9;  // bytes per second between GPU and host memory, in one direction
  double watts = 0.0;            // power limit of the GPU; 0: unknown

  GpuGeneration generation() const;
  // Whether the GPU has bfloat16 units. If not, bf16_flops is the GPU's peak in float16.
  bool has_bfloat16() const { return architecture != "volta"; }
};

// Returns the names of the built-in GPUs, sorted.
std::vector<std::string> gpu_names();

// Returns the built-in GPU with this name or alias, in upper or lower case. If `name` contains '/'
// or ends in ".toml", reads this TOML file instead; its path is relative to `folder`. If the GPU or
// the file does not exist, adds an error "cluster.gpu" at `where`; errors in a file are reported
// with the file's name and line. Returns nullopt after an error.
std::optional<Gpu> find_gpu(std::string_view name, const std::filesystem::path& folder,
                            const Span& where, Diagnostics& found);

}  // namespace am::cluster
