// Constants of the time model, for example the fraction of peak rates that real kernels reach, the
// overlap of communication with computation, and the cost of kernel launches. Each constant has a
// prior from published measurements. scripts/calibrate fits the constants to measured runs, near
// their priors, and writes the file plans/measured/constants.toml.
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
#include "am/predict/time/error_scale.h"

namespace am::predict {

enum class Constant {
  // Fraction of the peak FLOP/s that large matmuls reach, by GPU generation and number format.
  // Constants without a format in their names are for bf16.
  kGemmAmpere,
  kGemmHopper,
  kGemmBlackwell,
  kGemmHopperFp8,
  kGemmBlackwellFp8,
  kGemmBlackwellFp4,
  // T0, N0 and K0 of Note [Time model] (step_time.h): number of tokens, output width and input
  // width of a matmul. A matmul with T0 tokens and a very large output and input width reaches half
  // of the fraction above. The matmuls of experts use kHalfExpertTokens as T0.
  kHalfTokens,
  kHalfOutput,
  kHalfInput,
  kHalfExpertTokens,
  // Exponent: on a Blackwell GPU, the rate of matmuls is proportional to (the GPU's watts per peak
  // FLOP/s)^kPowerBlackwell, because the clock falls at the power limit.
  kPowerBlackwell,
  kMisaligned,  // factor of the time of a matmul whose widths are not both multiples of 64
  // FLOP/s of attention as a fraction of the FLOP/s of matmuls.
  kAttention,
  kAttentionBlackwell,
  kUnfusedBytes,  // bytes moved per attention score if scores are stored in memory
  // Number of values of the compute dtype that memory-bound operators read or write in forward, per
  // token and per element of the hidden state (kHiddenTraffic) or of the MLP's width
  // (kMlpTraffic).
  kHiddenTraffic,
  kMlpTraffic,
  kEagerTraffic,   // factor of kHiddenTraffic and kMlpTraffic if operators are not fused
  kNarrowTraffic,  // factor of kHiddenTraffic and kMlpTraffic if matmuls cast to fp8 or fp4
  // Minimum seconds of one layer's forward, in which its kernels are launched: kLaunch with current
  // kernels, kLaunchOld with kernels of 2021. A layer with experts adds kLaunchExperts.
  kLaunch,
  kLaunchOld,
  kLaunchExperts,
  // Factors of the launch seconds above for newer GPUs, whose hosts are faster.
  kLaunchHopper,
  kLaunchBlackwell,
  // Fraction of a bandwidth that collectives reach: of the links between Ampere GPUs, of the links
  // between all other GPUs, and of the network.
  kLinkAmpere,
  kLink,
  kNetwork,
  kTpLatency,  // seconds added to a tensor-parallel collective each time the ranks double
  // Fraction of an axis's or a strategy's communication that does not overlap with computation.
  kTpExposed,
  kCpExposed,
  kEpExposed,
  kFsdpExposed,
  kDdpExposed,
  kPpExposed,
  kStepSeconds,  // constant seconds per step, added to computation and communication
  kJitter,       // fraction of the step's time added each time the number of nodes doubles
  kCount
};
inline constexpr size_t kConstants = static_cast<size_t>(Constant::kCount);

struct ConstantSpec {
  std::string_view name;  // key in constants.toml
  double prior;
  double spread;  // standard deviation of log(constant / prior), for the fit
  std::string_view meaning;
};
const ConstantSpec& spec_of(Constant constant);

// Factors by which an implementation's times differ from the constants; 1 for an implementation
// without measured runs.
struct ImplementationFactors {
  double compute = 1.0;  // factor of the time of all computation
  double host = 1.0;     // factor of the time of kernel launches and of kStepSeconds
};

// Factors by which a GPU's times differ from the constants of its generation; 1 for GPUs without a
// section [gpu."NAME"] in the calibration file.
struct GpuFactors {
  double compute = 1.0;  // factor of the time of matmuls, attention and memory traffic
  double host = 1.0;     // factor of the time of kernel launches
  double links = 1.0;    // factor of the time of transfers over links and network
};
// Members of GpuFactors by their keys in a section [gpu."NAME"] of constants.toml.
inline constexpr std::array<std::pair<std::string_view, double GpuFactors::*>, 3> kGpuFactors = {
    {{"compute", &GpuFactors::compute},
     {"host", &GpuFactors::host},
     {"links", &GpuFactors::links}}};

struct CostConstants {
  std::array<double, kConstants> values;
  std::map<std::string, ImplementationFactors, std::less<>> implementations;
  // Site (cluster of a published run) -> factor of the time of kernel launches and of kStepSeconds.
  std::map<std::string, double, std::less<>> sites;
  std::map<std::string, GpuFactors, std::less<>> gpus;  // by Gpu::name

  CostConstants();  // sets each constant to its prior
  double operator[](Constant constant) const { return values[static_cast<size_t>(constant)]; }
  // The following functions return factors of 1 for an unknown name.
  const ImplementationFactors& of(std::string_view implementation) const;
  double at(std::string_view site) const;
  const GpuFactors& of_gpu(std::string_view name) const;
};

// Result of a fit: the constants, and the prediction errors for runs that were held out of the fit.
struct Calibration {
  CostConstants constants;
  // Median and 90 % quantile of |log(predicted / measured)| of step times over held-out runs. For
  // the members with `unseen` in their names, all runs of a publication were held out together.
  // Predictions use only time_90 of these four members, and only for GPUs whose factors the plan's
  // own calibration file contains. The other three inform readers of the file.
  double time_median = 0.1, time_90 = 0.3;
  double time_median_unseen = 0.15, time_90_unseen = 0.5;
  // Errors of held-out runs by kind, from which predictions compute their intervals. The runs that
  // were held out together are those of some layouts (errors_of_layouts), all of one publication
  // (errors_of_sources), or all on one GPU product (errors_of_gpus).
  ErrorScale errors_of_layouts, errors_of_sources, errors_of_gpus;
  double memory_90 = 0.15;  // 90 % quantile of the error of predicted memory
  double runs = 0;          // number of runs in the fit
};
// Members of Calibration by the names of their sections in constants.toml.
inline constexpr std::array<std::pair<std::string_view, ErrorScale Calibration::*>, 3>
    kErrorScales = {{{"errors_of_layouts", &Calibration::errors_of_layouts},
                     {"errors_of_sources", &Calibration::errors_of_sources},
                     {"errors_of_gpus", &Calibration::errors_of_gpus}}};
// Members of Calibration by their keys in the section [held_out] of constants.toml.
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
// Reads a file written by scripts/calibrate. Values that the file does not set are those of
// default_calibration(). Returns nullopt after an error. Adds a diagnostic for each error to
// `found`, for example "cluster.calibration" at `where` if the file cannot be read.
std::optional<Calibration> load_calibration(const std::filesystem::path& file, const Span& where,
                                            Diagnostics& found);

}  // namespace am::predict
