#include "calibrate/calibration_text.h"

#include "am/base/text.h"
#include "am/base/units.h"

namespace am_calibrate {

using am::predict::Calibration;
using am::predict::Constant;
using am::predict::ConstantSpec;
using am::predict::kConstants;
using am::predict::spec_of;

namespace {

std::string number(double value) { return am::format_general(value, 5); }

std::string held_out_toml(const Calibration& calibration) {
  std::string text =
      "\n# number of runs in the fit, and |log(predicted / measured)| of held-out "
      "runs\n[held_out]\n";
  for (const auto& [name, figure] : am::predict::kHeldOut) {
    text += am::cat(name, " = ", number(calibration.*figure), "\n");
  }
  return text;
}

}  // namespace

std::string to_toml(const Calibration& calibration) {
  std::string text = "# The time model, fitted to measured runs by scripts/calibrate.\n";
  if (!calibration.constants.gpus.empty()) {
    text += "# All other constants have their built-in values.\n";
    text += held_out_toml(calibration);
    for (const auto& [name, factors] : calibration.constants.gpus) {
      text += am::cat("\n[gpu.\"", name, "\"]\n");
      for (const auto& [key, member] : am::predict::kGpuFactors) {
        text += am::cat(key, " = ", number(factors.*member), "\n");
      }
    }
    return text;
  }
  text += "\n[constants]\n";
  for (size_t i = 0; i < kConstants; ++i) {
    const ConstantSpec& spec = spec_of(static_cast<Constant>(i));
    text += am::cat(spec.name, " = ", number(calibration.constants.values[i]), "  # ", spec.meaning,
                    "; prior ", number(spec.prior), "\n");
  }
  text += held_out_toml(calibration);
  for (const auto& [name, factors] : calibration.constants.implementations) {
    text += am::cat("\n[implementation.", name, "]\ncompute = ", number(factors.compute),
                    "\nhost = ", number(factors.host), "\n");
  }
  for (const auto& [section, scale] : am::predict::kErrorScales) {
    text += am::cat(
        "\n# |log(predicted / measured)| of nine in ten held-out runs, and factors by "
        "kind of run\n[",
        section, "]\nbase = ", number((calibration.*scale).base), "\n");
    for (const auto& [kind, factor] : (calibration.*scale).factors) {
      text += am::cat("\"", kind, "\" = ", number(factor), "\n");
    }
  }
  if (!calibration.constants.sites.empty()) {
    text += "\n# factor of kernel launch time, by site (cluster of published runs)\n[sites]\n";
    for (const auto& [name, factor] : calibration.constants.sites) {
      text += am::cat("\"", name, "\" = ", number(factor), "\n");
    }
  }
  return text;
}

}  // namespace am_calibrate
