// PyTorch's backend string: which engine of collectives serves which kind of device.
//
//   parse_backend("gloo")                  host tensors
//   parse_backend("nccl")                  GPU tensors
//   parse_backend("cpu:gloo,cuda:nccl")    both, chosen by the tensor of each collective
#pragma once

#include <string>

namespace am::config {

// Which engine serves which kind of device; empty: none.
struct BackendSpec {
  std::string cpu;
  std::string cuda;

  bool operator==(const BackendSpec&) const = default;
};

// Reads PyTorch's backend string. Throws Error(kUsage) that names the legal values for an unknown
// engine or device, or one given twice.
BackendSpec parse_backend(const std::string& backend);

}  // namespace am::config
