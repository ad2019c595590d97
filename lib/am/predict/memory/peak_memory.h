// Peak memory of a rank by formula, for any implementation. Used to filter layouts in `am-plan
// search` and compared with measured runs. For automesh, memory.h walks through the step and counts
// states to the byte; stage_memory.h selects between the two.
//
//   const PeakMemory peak = estimate_peak_memory(workload, /*position=*/0);
//   reserved_bytes(*workload.implementation, peak.total());   // torch's max_memory_reserved
//
// Formulas: parameters and states by their sharding (implementation.h), activations after
// Korthikanti et al., 2022, per implementation, units gathered by FSDP, logits.
#pragma once

#include <cstdint>

#include "am/cluster/hardware.h"
#include "am/predict/time/workload.h"

namespace am::predict {

// Bytes of one rank at its peak.
struct PeakMemory {
  double parameters = 0;   // stored parameters
  double gradients = 0;    // stored gradients
  double optimizer = 0;    // including master copies of the parameters
  double host = 0;         // the three above if they are offloaded: host memory
  double unsharded = 0;    // gathered parameters and their gradients
  double activations = 0;  // saved for backward, over all micro-batches in flight
  double recomputed = 0;   // of the layer whose backward runs
  double logits = 0;       // saved by the loss
  double loss = 0;         // added by the loss's backward
  double workspace = 0;    // cuBLAS workspace, the batch

  double states() const { return parameters + gradients + optimizer; }
  double total() const {
    return states() + unsharded + activations + recomputed + logits + loss + workspace;
  }
};

// `position`: index along pp.
PeakMemory estimate_peak_memory(const Workload& workload, int64_t position);
// Returns the largest peak of the first position, the last, and the one with most parameters.
PeakMemory worst_peak_memory(const Workload& workload);

// Memory that the caching allocator reserves for a peak of `allocated` bytes, and memory of the
// process including the CUDA context and NCCL's buffers, as nvidia-smi shows it.
double reserved_bytes(const cluster::Implementation& who, double allocated);
double process_bytes(const cluster::Implementation& who, double allocated);

// Whether a peak of `allocated` bytes, with the usual prediction error, fits into a GPU's memory.
enum class Fit { kFits, kMayFit, kTooLarge };
Fit fit_into(const cluster::Implementation& who, double allocated, const cluster::Gpu& gpu);
// Returns the largest peak that fits.
double usable_bytes(const cluster::Implementation& who, const cluster::Gpu& gpu);

// Bytes that one token saves in one layer, without recomputation.
double layer_activation_bytes(const Workload& workload, const model::LayerProfile& layer);

}  // namespace am::predict
