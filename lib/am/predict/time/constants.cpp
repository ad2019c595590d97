#include "am/predict/time/constants.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/cluster/embedded_files.h"
#include "am/config/codec.h"
#include "am/config/value.h"

namespace am::predict {
namespace {

// Names, priors, spreads and meanings of the constants. The priors are based on these measurements.
// Matmuls of the best shapes reach 0.87 of an A100's peak, 0.80 of an H100's and 0.78 of a B200's;
// the priors are lower. The priors of links are the bus bandwidths that nccl-tests reports, as
// fractions of the links' bandwidths. The prior of misaligned widths is from Anthony et al., 2024,
// whose models became 39 % faster with aligned widths.
constexpr std::array<ConstantSpec, kConstants> kSpecs = {{
    {"gemm_ampere", 0.80, 0.2, "share of an A100's bf16 peak that large matrix products reach"},
    {"gemm_hopper", 0.72, 0.2, "share of an H100's bf16 peak that large matrix products reach"},
    {"gemm_blackwell", 0.68, 0.2, "share of a B200's bf16 peak that large matrix products reach"},
    {"gemm_hopper_fp8", 0.62, 0.2, "share of an H100's fp8 peak that large matrix products reach"},
    {"gemm_blackwell_fp8", 0.60, 0.2,
     "share of a B200's fp8 peak that large matrix products reach"},
    {"gemm_blackwell_fp4", 0.50, 0.3,
     "share of a B200's fp4 peak that large matrix products reach"},
    {"half_tokens", 150.0, 0.7, "tokens at which a matrix product has half the rate of large ones"},
    {"half_output", 200.0, 0.7,
     "output width at which a matrix product has half the rate of large ones"},
    {"half_input", 150.0, 0.7,
     "input width at which a matrix product has half the rate of large ones"},
    {"half_expert_tokens", 500.0, 0.7,
     "tokens of one expert at which its products have half the rate of large ones"},
    {"power_blackwell", 0.3, 0.5,
     "exponent of the watts per peak FLOP/s in a Blackwell GPU's rate of matrix products"},
    {"misaligned", 1.39, 0.2,
     "time factor of a matrix product whose width is not a multiple of 64"},
    {"attention", 0.55, 0.3, "attention's rate, as a share of matrix products' rate"},
    {"attention_blackwell", 0.60, 0.3,
     "attention's rate on a B200, as a share of matrix products' rate"},
    {"unfused_bytes", 12.0, 0.25,
     "bytes moved per attention score that is materialised: written, masked, softmax, dropout"},
    {"hidden_traffic", 24.0, 0.5, "2-byte elements moved per token and hidden element, forward"},
    {"mlp_traffic", 6.0, 0.5,
     "2-byte elements moved per token and element of the MLP's width, forward"},
    {"eager_traffic", 1.6, 0.3, "traffic factor of unfused operators"},
    {"narrow_traffic", 1.2, 0.2, "traffic factor of casts to 8 and 4 bits"},
    {"launch_seconds", 6e-4, 0.7, "seconds of one layer's forward, at least"},
    {"launch_seconds_old", 9e-4, 0.5,
     "seconds of one layer's forward with the kernels of 2021, at least"},
    {"launch_seconds_experts", 1e-3, 0.7, "additional seconds of a layer with experts"},
    {"launch_hopper", 0.7, 0.3, "launch time factor of an H100's host"},
    {"launch_blackwell", 0.7, 0.3, "launch time factor of a B200's host"},
    {"link_ampere", 0.70, 0.2, "share of NVLink 3's bandwidth that collectives reach"},
    {"link", 0.70, 0.2, "share of newer links' bandwidth that collectives reach"},
    {"network", 0.75, 0.2, "share of the network's bandwidth that collectives reach"},
    {"tp_latency", 2e-5, 0.6,
     "seconds added to a tensor-parallel collective each time the ranks double"},
    {"tp_exposed", 0.3, 0.5,
     "share of tensor parallelism's communication that is exposed in frameworks that overlap it"},
    {"cp_exposed", 0.4, 0.7, "share of context parallelism's communication that is exposed"},
    {"ep_exposed", 0.8, 0.4, "share of expert parallelism's communication that is exposed"},
    {"fsdp_exposed", 0.3, 0.5,
     "share of FSDP's communication that is exposed, if each micro-batch gathers and reduces"},
    {"ddp_exposed", 0.25, 0.5,
     "share of data parallelism's communication that is exposed, if each step reduces once"},
    {"pp_exposed", 0.5, 0.6, "share of a pipeline's transfers that is exposed"},
    {"step_seconds", 0.02, 0.7, "fixed seconds per step"},
    {"jitter", 0.005, 0.7, "share of the step added each time the nodes double"},
}};

class CalibrationReader {
 public:
  CalibrationReader(Calibration& calibration, Diagnostics& found)
      : calibration_(calibration), found_(found) {}

  void read(const config::Value& root) {
    for (const config::Member& member : root.members) read_section(member);
  }

 private:
  using Reading = void (CalibrationReader::*)(const config::Member& member);

  void read_section(const config::Member& section) {
    constexpr std::array<std::pair<std::string_view, Reading>, 5> kSections = {{
        {"constants", &CalibrationReader::constant},
        {"held_out", &CalibrationReader::held_out},
        {"sites", &CalibrationReader::site},
        {"implementation", &CalibrationReader::implementation},
        {"gpu", &CalibrationReader::gpu},
    }};
    for (const auto& [name, reading] : kSections) {
      if (section.key != name || !section.value.is_table()) continue;
      for (const config::Member& member : section.value.members) (this->*reading)(member);
      return;
    }
    for (const auto& [name, scale] : kErrorScales) {
      if (section.key != name || !section.value.is_table()) continue;
      calibration_.*scale = {};
      for (const config::Member& member : section.value.members) {
        const auto value = positive(member);
        if (!value) continue;
        if (member.key == "base") {
          (calibration_.*scale).base = *value;
        } else {
          (calibration_.*scale).factors[member.key] = *value;
        }
      }
      return;
    }
    unknown(section);
  }

  void site(const config::Member& member) {
    if (const auto value = positive(member)) calibration_.constants.sites[member.key] = *value;
  }

  void unknown(const config::Member& member) {
    found_.error("cluster.calibration", member.key_span, cat("unknown key ", member.key),
                 "remove it: legal keys are those that scripts/calibrate writes");
  }

  std::optional<double> positive(const config::Member& member) {
    const config::Input input{member.value, member.key, found_};
    const auto value = config::Number{.min = 0.0, .below = 1e9}.read(input);
    if (value && *value <= 0.0) {
      input.out_of_range(" must be above 0", "");
      return std::nullopt;
    }
    return value;
  }

  void constant(const config::Member& member) {
    for (size_t i = 0; i < kConstants; ++i) {
      if (kSpecs[i].name != member.key) continue;
      if (const auto value = positive(member)) calibration_.constants.values[i] = *value;
      return;
    }
    unknown(member);
  }

  void held_out(const config::Member& member) {
    const auto value = positive(member);
    if (!value) return;
    for (const auto& [name, figure] : kHeldOut) {
      if (member.key == name) {
        calibration_.*figure = *value;
        return;
      }
    }
    unknown(member);
  }

  void implementation(const config::Member& member) {
    if (!member.value.is_table()) return unknown(member);
    ImplementationFactors& factors = calibration_.constants.implementations[member.key];
    for (const config::Member& inner : member.value.members) {
      const auto value = positive(inner);
      if (!value) continue;
      if (inner.key == "compute") {
        factors.compute = *value;
      } else if (inner.key == "host") {
        factors.host = *value;
      } else {
        unknown(inner);
      }
    }
  }

  void gpu(const config::Member& member) {
    if (!member.value.is_table()) return unknown(member);
    GpuFactors& factors = calibration_.constants.gpus[member.key];
    for (const config::Member& inner : member.value.members) {
      const auto factor = std::find_if(kGpuFactors.begin(), kGpuFactors.end(),
                                       [&](const auto& each) { return each.first == inner.key; });
      if (factor == kGpuFactors.end()) {
        unknown(inner);
      } else if (const auto value = positive(inner)) {
        factors.*factor->second = *value;
      }
    }
  }

  Calibration& calibration_;
  Diagnostics& found_;
};

// Returns `base` with the values of the TOML text `text`, or nullopt after an error. `file`: the
// file's name in diagnostics.
std::optional<Calibration> parse_calibration(std::string_view text, const std::string& file,
                                             Calibration base, Diagnostics& found) {
  const int before = found.errors();
  const auto root = config::read_toml(text, file, found);
  if (!root) return std::nullopt;
  CalibrationReader(base, found).read(*root);
  if (found.errors() > before) return std::nullopt;
  return base;
}

}  // namespace

const ConstantSpec& spec_of(Constant constant) { return kSpecs[static_cast<size_t>(constant)]; }

CostConstants::CostConstants() {
  for (size_t i = 0; i < kConstants; ++i) values[i] = kSpecs[i].prior;
}

const ImplementationFactors& CostConstants::of(std::string_view implementation) const {
  static const ImplementationFactors kUnknown;
  const auto found = implementations.find(implementation);
  return found == implementations.end() ? kUnknown : found->second;
}

double CostConstants::at(std::string_view site) const {
  const auto found = sites.find(site);
  return found == sites.end() ? 1.0 : found->second;
}

const GpuFactors& CostConstants::of_gpu(std::string_view name) const {
  static const GpuFactors kUnknown;
  const auto found = gpus.find(name);
  return found == gpus.end() ? kUnknown : found->second;
}

const Calibration& default_calibration() {
  static const Calibration calibration = [] {
    Diagnostics found;
    auto parsed =
        parse_calibration(cluster::measured_file("constants.toml"), "constants.toml", {}, found);
    AM_ASSERT(parsed.has_value(), "the calibration that is built in is valid");
    return *parsed;
  }();
  return calibration;
}

std::optional<Calibration> load_calibration(const std::filesystem::path& file, const Span& where,
                                            Diagnostics& found) {
  try {
    return parse_calibration(read_file(file), file.string(), default_calibration(), found);
  } catch (const Error& error) {
    found.error("cluster.calibration", where, error.what(), "paths are relative to the plan file");
    return std::nullopt;
  }
}

}  // namespace am::predict
