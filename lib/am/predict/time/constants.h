// Constants of the time and memory models: the fraction of peak rates that real kernels reach,
// overlap of communication with computation, cost of kernel launches. Each has a prior from
// published measurements and is fitted to measured runs around it (apps/calibrate). The result is
// the file plans/measured/constants.toml.
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

namespace am::predict {

enum class Constant {
  // Fraction of the peak that large matmuls reach, by generation and format.
  kGemmAmpere,
  kGemmHopper,
  kGemmBlackwell,
  kGemmHopperFp8,
  kGemmBlackwellFp8,
  kGemmBlackwellFp4,
  // T0, N0 and K0 of Note [Time model]: the tokens, the output width and the input width at which a
  // matmul that is large in the other two sizes reaches half of that.
  kHalfTokens,
  kHalfOutput,
  kHalfInput,
  kHalfExpertTokens,
  kMisaligned,  // factor for widths that are not multiples of the tensor cores' tile
  // Attention: rate relative to that of matmuls.
  kAttention,
  kAttentionBlackwell,
  kUnfusedBytes,  // bytes moved per score if scores are stored in memory
  // Memory-bound operators: bytes moved per token and element, in 2-byte units.
  kHiddenTraffic,
  kMlpTraffic,
  kEagerTraffic,   // factor for unfused operators
  kNarrowTraffic,  // factor for casts to fp8 and fp4
  // Minimum seconds for launching a layer's forward.
  kLaunch,
  kLaunchOld,
  kLaunchExperts,
  kLaunchHopper,  // factor for newer hosts
  kLaunchBlackwell,
  // Links: fraction of their bandwidth that collectives reach; seconds per hop.
  kLinkAmpere,
  kLink,
  kNetwork,
  kTpLatency,
  // Fractions of communication that is not overlapped.
  kTpExposed,
  kCpExposed,
  kEpExposed,
  kFsdpExposed,
  kDdpExposed,
  kPpExposed,
  kStepSeconds,  // constant seconds per step
  kJitter,       // fraction of the step, per doubling of the number of nodes
  kCount
};
inline constexpr size_t kConstants = static_cast<size_t>(Constant::kCount);

struct ConstantSpec {
  std::string_view name;  // key in the file
  double prior;
  double spread;  // standard deviation of the logarithm around the prior, for fitting
  std::string_view meaning;
};
const ConstantSpec& spec_of(Constant constant);

// Factors of one implementation; 1 for an implementation without measured runs.
struct ImplementationFactors {
  double compute = 1.0;  // of all computation
  double host = 1.0;     // of kernel launches and kStepSeconds
};

struct CostConstants {
  std::array<double, kConstants> values;
  std::map<std::string, ImplementationFactors, std::less<>> implementations;
  // By site: factor of kernel launches and kStepSeconds.
  std::map<std::string, double, std::less<>> sites;

  CostConstants();  // sets the priors
  double operator[](Constant constant) const { return values[static_cast<size_t>(constant)]; }
  const ImplementationFactors& of(std::string_view implementation) const;
  double at(std::string_view site) const;
};

// Result of a fit: the constants, and the prediction errors of held-out runs.
struct Calibration {
  CostConstants constants;
  // Quantiles of |log(predicted / measured)| over held-out runs: median and 90 %, for
  // implementations with measured runs and for others (unseen).
  double time_median = 0.1, time_90 = 0.3;
  double time_median_unseen = 0.15, time_90_unseen = 0.5;
  double memory_90 = 0.15;
  double runs = 0;
};
// Members by their names in the file.
inline constexpr std::array<std::pair<std::string_view, double Calibration::*>, 6> kHeldOut = {{
    {"runs", &Calibration::runs},
    {"time_median", &Calibration::time_median},
    {"time_90", &Calibration::time_90},
    {"time_median_unseen", &Calibration::time_median_unseen},
    {"time_90_unseen", &Calibration::time_90_unseen},
    {"memory_90", &Calibration::memory_90},
}};

// Returns the built-in calibration.
const Calibration& default_calibration();
// Reads a file written by scripts/calibrate. Adds "cluster.calibration" for errors in it.
std::optional<Calibration> load_calibration(const std::filesystem::path& file, const Span& where,
                                            Diagnostics& found);

}  // namespace am::predict
