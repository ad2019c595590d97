// The peak of a rank's memory by formula, for any implementation: what `am-plan search` sieves
// layouts with, and what is held against measured runs. For automesh's own steps memory.h walks
// through the step and counts the states to the byte; stage_memory.h chooses between the two.
//
//   const PeakMemory peak = estimate_peak_memory(workload, /*position=*/0);
//   reserved_bytes(*workload.implementation, peak.total());   // torch's max_memory_reserved
//
// Formulas: parameters and states by what shards them (implementation.h), activations after
// Korthikanti et al., 2022, per implementation, FSDP's gathered units, logits.
#pragma once

#include <cstdint>

#include "am/planner/cost/hardware.h"
#include "am/planner/cost/workload.h"

namespace am::planner {

// Bytes of one rank at the moment of its peak.
struct PeakMemory {
  double parameters = 0;   // as they are kept
  double gradients = 0;    // as they are kept
  double optimizer = 0;    // with its master copies
  double host = 0;         // all three, where they are offloaded: of the host's memory
  double unsharded = 0;    // gathered parameters and their gradients
  double activations = 0;  // kept for backward, of all micro-batches in flight
  double recomputed = 0;   // of the layer whose backward runs
  double logits = 0;       // kept from the loss
  double loss = 0;         // what its backward adds
  double workspace = 0;    // cuBLAS, the batch

  double states() const { return parameters + gradients + optimizer; }
  double total() const {
    return states() + unsharded + activations + recomputed + logits + loss + workspace;
  }
};

// `position`: an index along pp.
PeakMemory estimate_peak_memory(const Workload& workload, int64_t position);
// The worst position: the first, the last, or the one that holds most.
PeakMemory worst_peak_memory(const Workload& workload);

// What the caching allocator reserves for a peak of `allocated` bytes, and what the process holds
// with the CUDA context and NCCL's buffers, as nvidia-smi shows it.
double reserved_bytes(const Implementation& who, double allocated);
double process_bytes(const Implementation& who, double allocated);

// Whether a peak of `allocated` bytes, with the error that such predictions have, fits into a GPU's
// memory.
enum class Fit { kFits, kMayFit, kTooLarge };
Fit fit_into(const Implementation& who, double allocated, const Gpu& gpu);
// The largest peak that fits.
double usable_bytes(const Implementation& who, const Gpu& gpu);

// Bytes that one token keeps in one layer, without recomputation.
double layer_activation_bytes(const Workload& workload, const model::LayerProfile& layer);

}  // namespace am::planner
