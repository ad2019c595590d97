#include "am/config/backend.h"

#include <string_view>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::config {

namespace {

constexpr const char* kLegal =
    "\"gloo\", \"nccl\", \"cuda:gloo\", \"cpu:gloo,cuda:nccl\" or \"cpu:gloo,cuda:gloo\"";

[[noreturn]] void refuse(const std::string& backend, const std::string& reason) {
  throw Error(ErrorKind::kUsage, cat("backend \"", backend, "\": ", reason),
              cat("legal: ", kLegal));
}

void place(BackendSpec& spec, const std::string& backend, std::string_view device,
           const std::string& engine) {
  std::string& slot = device == "cuda" ? spec.cuda : spec.cpu;
  if (!slot.empty()) refuse(backend, cat(device, " is listed twice"));
  slot = engine;
}

}  // namespace

BackendSpec parse_backend(const std::string& backend) {
  BackendSpec spec;
  for (const std::string& part : split(backend, ',')) {
    const std::string word(trim(part));
    const size_t colon = word.find(':');
    const std::string engine = colon == std::string::npos ? word : word.substr(colon + 1);
    if (engine != "gloo" && engine != "nccl") {
      refuse(backend, cat("unknown library \"", engine, "\""));
    }
    const std::string own = engine == "gloo" ? "cpu" : "cuda";
    const std::string device = colon == std::string::npos ? own : word.substr(0, colon);
    if (device != "cpu" && device != "cuda") {
      refuse(backend, cat("unknown device \"", device, "\""));
    }
    if (engine == "nccl" && device != own) refuse(backend, "nccl supports only cuda tensors");
    place(spec, backend, device, engine);
  }
  return spec;
}

bool computes_on_host(const std::optional<std::string>& backend) {
  return backend && !parse_backend(*backend).serves_gpus();
}

bool runs_without_nccl(const std::optional<std::string>& backend) {
  return backend && !parse_backend(*backend).uses_nccl();
}

}  // namespace am::config
