// Parses PyTorch's backend string, which names the collective engine for each kind of device.
//
//   parse_backend("gloo");                  // host tensors
//   parse_backend("nccl");                  // GPU tensors
//   parse_backend("cuda:gloo");             // GPU tensors, through host memory
//   parse_backend("cpu:gloo,cuda:nccl");    // host tensors by Gloo, GPU tensors by NCCL
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

// Parses a backend string. Throws Error(kUsage), with the legal values as a hint, for an unknown
// engine or device, for NCCL on the CPU, and for a device that occurs twice.
BackendSpec parse_backend(const std::string& backend);

// Whether a plan with this strategy.backend computes on the CPU on every machine. Returns false if
// the key is absent, because a machine with a GPU then uses NCCL.
bool computes_on_host(const std::optional<std::string>& backend);
// Whether a plan with this strategy.backend never uses NCCL. Returns false if the key is absent.
bool runs_without_nccl(const std::optional<std::string>& backend);

}  // namespace am::config
