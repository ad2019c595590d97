// PyTorch's backend string: which engine of collectives serves which kind of device.
//
//   parse_backend("gloo")                  host tensors
//   parse_backend("nccl")                  GPU tensors
//   parse_backend("cuda:gloo")             GPU tensors, through host memory
//   parse_backend("cpu:gloo,cuda:nccl")    both, chosen by the tensor of each collective
#pragma once

#include <optional>
#include <string>

namespace am::config {

// Which engine serves which kind of device; empty: none.
struct BackendSpec {
  std::string cpu;
  std::string cuda;

  bool serves_gpus() const { return !cuda.empty(); }
  bool uses_nccl() const { return cuda == "nccl"; }
  bool operator==(const BackendSpec&) const = default;
};

// Reads PyTorch's backend string. Throws Error(kUsage) that names the legal values for an unknown
// engine or device, or one given twice.
BackendSpec parse_backend(const std::string& backend);

// Both are about a plan's strategy.backend. Absent, it is a GPU's nccl where there is a GPU, which
// is what plans are made for: neither holds then.
//
// Whether the host computes.
bool computes_on_host(const std::optional<std::string>& backend);
// Whether no collective is NCCL's.
bool runs_without_nccl(const std::optional<std::string>& backend);

}  // namespace am::config
