// Computes the peak memory of a rank by formula, for any implementation (Megatron, torchtitan,
// ...). `am-plan search` drops layouts that do not fit by this formula, and scripts/calibrate
// compares the formula with measured runs. For automesh, the prediction of memory.h is more exact,
// because it simulates the step. stage_memory.h selects between the two predictions.
//
//   const PeakMemory peak = estimate_peak_memory(workload, /*position=*/0);
//   reserved_bytes(*workload.implementation, peak.total());   // torch's max_memory_reserved
//
// The formulas add the rank's shards of parameters, gradients and optimizer states, activations
// (Korthikanti et al., 2022), the parameters that FSDP gathers, and logits. Factors that differ
// between implementations are in cluster/implementation.h.
#pragma once

#include <cstdint>

#include "am/cluster/hardware.h"
#include "am/predict/time/workload.h"

namespace am::predict {

// Bytes of one rank at its peak.
struct PeakMemory {
  double parameters = 0;  // stored parameters, and copies of them in FP8 or FP4
  double gradients = 0;   // stored gradients
  double optimizer = 0;   // optimizer states, including master copies of the parameters
  // Bytes in host memory. If the plan offloads parameters, gradients and optimizer states, the
  // three members above are 0. Offloaded activations are not in `activations`.
  double host = 0;
  double unsharded = 0;    // gathered parameters, and gradients before their reduction
  double activations = 0;  // activations saved for backward, of all micro-batches in flight
  double recomputed = 0;   // recomputed activations of the layer whose backward runs
  double logits = 0;       // logits that the loss saves
  double loss = 0;         // tensors that the loss's backward allocates in addition
  double workspace = 0;    // cuBLAS's workspace, and the batch with its attention mask

  double states() const { return parameters + gradients + optimizer; }
  double total() const {
    return states() + unsharded + activations + recomputed + logits + loss + workspace;
  }
};

// Returns the peak of the ranks whose index along pp is `position`.
PeakMemory estimate_peak_memory(const Workload& workload, int64_t position);
// Returns the largest peak among three indices along pp: the first, the last, and the one with the
// most parameters.
PeakMemory worst_peak_memory(const Workload& workload);

// Returns the bytes that the caching allocator reserves if a job's peak is `allocated` bytes.
double reserved_bytes(const cluster::Implementation& who, double allocated);
// Returns the GPU memory of the process as nvidia-smi shows it: reserved_bytes(), the CUDA context
// and NCCL's buffers.
double process_bytes(const cluster::Implementation& who, double allocated);

// Whether a predicted peak of `allocated` bytes fits into a GPU's memory. kFits: the job fits even
// if the real peak is higher by the usual prediction error. kTooLarge: the job does not fit even if
// the real peak is lower by that error. kMayFit: all other peaks.
enum class Fit { kFits, kMayFit, kTooLarge };
Fit fit_into(const cluster::Implementation& who, double allocated, const cluster::Gpu& gpu);
// Returns the largest predicted peak for which fit_into() returns kFits.
double usable_bytes(const cluster::Implementation& who, const cluster::Gpu& gpu);

// Returns the bytes that one layer saves per token for backward, without recomputation.
double layer_activation_bytes(const Workload& workload, const model::LayerProfile& layer);
// Returns the bytes that the forward of one micro-batch through a stage saves for backward on one
// rank, on the device and in host memory together.
double stage_activation_bytes(const Workload& workload, const StageSummary& stage);

}  // namespace am::predict
