// The constants of the time and memory models: how much of a peak real kernels reach, what overlaps
// with what, what a launch costs. Each has a prior from published measurements and is fitted to
// measured runs around it (apps/calibrate); the result is a file, plans/measured/constants.toml.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "am/base/diagnostic.h"

namespace am::planner {

enum class Constant {
  // Matrix products: share of the peak that large ones reach, by generation and format.
  kGemmAmpere,
  kGemmHopper,
  kGemmBlackwell,
  kGemmHopperFp8,
  kGemmBlackwellFp8,
  kGemmBlackwellFp4,
  // Tokens, output and input width at which a product reaches half of that.
  kHalfTokens,
  kHalfOutput,
  kHalfInput,
  kHalfExpertTokens,
  kMisaligned,  // factor where a width is not a multiple of what tensor cores take at once
  // Attention: share of what matrix products reach.
  kAttention,
  kAttentionBlackwell,
  kUnfusedBytes,  // moved a score where scores stand in memory
  // Memory-bound operators: bytes moved a token and element, in 2-byte units.
  kHiddenTraffic,
  kMlpTraffic,
  kEagerTraffic,   // factor of unfused operators
  kNarrowTraffic,  // factor of casts to fp8 and fp4
  // Seconds that launching a layer's forward takes at least.
  kLaunch,
  kLaunchOld,
  kLaunchExperts,
  kLaunchHopper,  // factor of newer hosts
  kLaunchBlackwell,
  // Links: share of their bandwidth that collectives reach; seconds a hop.
  kLinkAmpere,
  kLink,
  kNetwork,
  kTpLatency,
  // Shares of communication that nothing hides.
  kTpExposed,
  kCpExposed,
  kEpExposed,
  kFsdpExposed,
  kDdpExposed,
  kPpExposed,
  kStepSeconds,  // of a step, whatever it computes
  kJitter,       // of the step, each time the nodes double
  kCount
};
inline constexpr size_t kConstants = static_cast<size_t>(Constant::kCount);

struct ConstantSpec {
  std::string_view name;  // in the file
  double prior;
  double spread;  // of its logarithm: how far data may move it
  std::string_view meaning;
};
const ConstantSpec& spec_of(Constant constant);

// What is an implementation's own; 1 for one that no run was measured with.
struct ImplementationFactors {
  double compute = 1.0;  // of all computing
  double host = 1.0;     // of launching, and of kStepSeconds
};

struct CostConstants {
  std::array<double, kConstants> values;
  std::map<std::string, ImplementationFactors, std::less<>> implementations;
  std::map<std::string, double, std::less<>> sites;  // of launching, and of kStepSeconds

  CostConstants();  // the priors
  double operator[](Constant constant) const { return values[static_cast<size_t>(constant)]; }
  const ImplementationFactors& of(std::string_view implementation) const;
  double at(std::string_view site) const;
};

// What came out of fitting: the constants and how far held-out runs were from their prediction.
struct Calibration {
  CostConstants constants;
  // Of |log(predicted / measured)| of held-out runs: the median, and what nine in ten stay below;
  // for implementations that were measured and for those that were not.
  double time_median = 0.1, time_90 = 0.3;
  double time_median_unseen = 0.15, time_90_unseen = 0.5;
  double memory_90 = 0.15;
  double runs = 0;
};
// By their names in the file.
inline constexpr std::array<std::pair<std::string_view, double Calibration::*>, 6> kHeldOut = {{
    {"runs", &Calibration::runs},
    {"time_median", &Calibration::time_median},
    {"time_90", &Calibration::time_90},
    {"time_median_unseen", &Calibration::time_median_unseen},
    {"time_90_unseen", &Calibration::time_90_unseen},
    {"memory_90", &Calibration::memory_90},
}};

// The calibration that is built in.
const Calibration& default_calibration();
// From a file that scripts/calibrate wrote. Adds "cluster.calibration" for what is wrong in it.
std::optional<Calibration> load_calibration(const std::filesystem::path& file, const Span& where,
                                            Diagnostics& found);

}  // namespace am::planner
