#include "am/predict/time/error_scale.h"

#include "am/predict/time/evidence.h"
#include "am/predict/time/measured_runs.h"

namespace am::predict {

double ErrorScale::of(const std::vector<std::string>& kinds) const {
  double scale = base;
  for (const std::string& kind : kinds) {
    const auto factor = factors.find(kind);
    if (factor != factors.end()) scale *= factor->second;
  }
  return scale;
}

std::vector<std::string> kinds_of(const Workload& workload, const cluster::Gpu& gpu) {
  std::vector<std::string> kinds = {gpu.architecture, std::string(product_of(gpu)),
                                    std::string(name_of(workload.format)),
                                    workload.implementation->name};
  if (has_experts(workload)) kinds.emplace_back("experts");
  return kinds;
}

}  // namespace am::predict
