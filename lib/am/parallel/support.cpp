#include <optional>
#include <string>

#include "am/base/text.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/gpu_driver.h"

namespace am::parallel {

namespace {

// Collects what this version does not run, each at the key that asks for it.
class Unsupported {
 public:
  Unsupported(const config::Plan& plan, Diagnostics& found) : plan_(plan), found_(found) {}

  void refuse(bool condition, const std::string& key, const std::string& what,
              const std::string& help) {
    if (!condition) return;
    found_.error("runtime.unsupported", plan_.span(key),
                 cat(what, " is valid, but this version of am-run cannot run it"), help);
  }

 private:
  const config::Plan& plan_;
  Diagnostics& found_;
};

void check_fsdp2(const config::FSDP2Config& config, Unsupported& unsupported) {
  // Measured: lib/decisions/0010-fused-operators-and-memory-on-the-host.md.
  unsupported.refuse(config.enable_compile, "strategy.enable_compile", "compilation",
                     "set it to false: what a compiler would fuse of a layer is fused already");
  unsupported.refuse(config.enable_async_tensor_parallel, "strategy.enable_async_tensor_parallel",
                     "asynchronous tensor parallelism",
                     "set it to false: products and the messages of tensor parallelism take turns");
  const bool custom_plan = !config.tp_plan.table.empty() || config.tp_plan.text != "auto";
  unsupported.refuse(config.sequence_parallel && custom_plan, "strategy.tp_plan",
                     "a custom tp_plan together with sequence_parallel",
                     "use tp_plan = \"auto\", or sequence_parallel = false");
}

void check_megatron_fsdp(const config::MegatronFSDPConfig& config, Unsupported& unsupported) {
  unsupported.refuse(config.nccl_ub, "strategy.nccl_ub", "registering buffers with NCCL",
                     "set it to false");
  unsupported.refuse(config.keep_fp8_transpose_cache, "strategy.keep_fp8_transpose_cache",
                     "a cache of FP8 transposes", "set it to false");
}

std::optional<std::string> asked_backend(const config::Plan& plan) {
  return std::visit([](const auto& config) { return config.backend; }, plan.strategy);
}

}  // namespace

void check_supported(const config::Plan& plan, const mesh::MeshSizes& sizes, Diagnostics& found) {
  Unsupported unsupported(plan, found);
  unsupported.refuse(sizes.pp > 1, "mesh.pp_size", "pipeline parallelism", "use pp_size = 1");
  unsupported.refuse(sizes.cp > 1, "mesh.cp_size", "context parallelism", "use cp_size = 1");
  unsupported.refuse(sizes.ep > 1, "mesh.ep_size", "expert parallelism", "use ep_size = 1");
  if (const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&plan.strategy)) {
    check_megatron_fsdp(*megatron, unsupported);
  }
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) {
    check_fsdp2(*fsdp2, unsupported);
  }
  unsupported.refuse(plan.metrics.trace, "metrics.trace", "tracing", "set it to false");
  unsupported.refuse(plan.checkpoint.async, "checkpoint.async", "asynchronous checkpointing",
                     "set it to false");
}

void check_backend(const config::Plan& plan, Diagnostics& found) {
  const auto asked = asked_backend(plan);
  if (asked == "gloo") return;
  const auto problem = runtime::why_no_cuda();
  if (!problem) return;
  const auto span = plan.span("strategy.backend");
  if (asked) {
    found.error("runtime.backend", span, cat("backend \"", *asked, "\": ", problem->what),
                cat(problem->help, ", or leave the key out"));
  } else if (const int gpus = runtime::visible_gpus().count; gpus > 0) {
    found.warning("runtime.backend", span,
                  cat("this machine has ", gpus, gpus == 1 ? " GPU" : " GPUs",
                      ", but the plan runs on CPUs over gloo: ", problem->what),
                  problem->help);
  }
}

std::string backend_of(const config::Plan& plan) {
  const auto asked = asked_backend(plan);
  return asked ? *asked : runtime::default_backend();
}

}  // namespace am::parallel
