// Parses PyTorch's backend string, which names the collective engine for each kind of device.
//
//   parse_backend("gloo");                  // host tensors
//   parse_backend("nccl");                  // GPU tensors
//   parse_backend("cuda:gloo");             // GPU tensors, through host memory
//   parse_backend("cpu:gloo,cuda:nccl");    // both, chosen by the device of a collective's tensor
#pragma once

#include <optional>
#include <string>

namespace am::config {

// Engines of collectives on CPU tensors and on GPU tensors: "gloo" or "nccl". Empty: tensors of
// that device cannot be communicated.
struct BackendSpec {
  std::string cpu;
  std::string cuda;

  bool serves_gpus() const { return !cuda.empty(); }
  bool uses_nccl() const { return cuda == "nccl"; }
  bool operator==(const BackendSpec&) const = default;
};

// Parses a backend string. Throws Error(kUsage), which names the legal values, for an unknown
// engine or device, for NCCL on the CPU, and for a device given twice.
BackendSpec parse_backend(const std::string& backend);

// Whether a plan with this strategy.backend computes on the CPU. Returns false if the key is
// absent, because NCCL is then used if there is a GPU.
bool computes_on_host(const std::optional<std::string>& backend);
// Whether a plan with this strategy.backend runs no collective over NCCL. Returns false if the key
// is absent.
bool runs_without_nccl(const std::optional<std::string>& backend);

}  // namespace am::config
