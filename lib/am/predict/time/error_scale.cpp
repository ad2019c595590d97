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

std::vector<std::string> kinds_of_new(const Workload& workload, const cluster::Gpu& gpu) {
  std::vector<std::string> kinds = {gpu.architecture, std::string(name_of(workload.format))};
  if (has_experts(workload)) kinds.emplace_back("experts");
  return kinds;
}

std::vector<std::string> kinds_of(const Workload& workload, const cluster::Gpu& gpu) {
  std::vector<std::string> kinds = kinds_of_new(workload, gpu);
  kinds.emplace_back(product_of(gpu));
  kinds.push_back(workload.implementation->name);
  return kinds;
}

}  // namespace am::predict
