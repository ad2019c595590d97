// Rules that am-run reports before any rank starts. am-plan check reports runtime.unsupported too.
#include <array>

#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

constexpr std::array<Rule, 3> kRules = {{
    {.id = "runtime.unsupported",
     .summary = "the plan uses only what this build of am-run can run",
     .explain =
         "am-plan draws every plan that the schema allows and predicts its time and memory. "
         "Before any rank starts, am-run refuses a plan that it cannot run, with an error at the "
         "key of the unsupported feature. `am-plan check` reports the same error, unless [cluster] "
         "implementation names another framework, for example \"torchtitan\"; `am-plan check "
         "--plan-only` checks only the layout of a plan. am-run runs the model families that its "
         "error for any other family lists, with rotary embeddings of type default, linear, "
         "llama3, yarn or longrope, and with SiLU, GELU, ReLU or squared ReLU. It does not run "
         "Falcon's ALiBi, non-causal attention, clip_qkv, experts with biases, or router "
         "jitter.\n\n"
         "The help line names a value that runs.",
     .check = nullptr},
    {.id = "runtime.backend",
     .summary = "the library of the collectives exists on this machine",
     .explain =
         "gloo runs on any CPU. nccl needs a GPU, NVIDIA's driver, automesh's CUDA plugin "
         "(libautomesh_cuda.so, built where the CUDA toolkit is), and a libtorch with all its "
         "CUDA libraries. Leave strategy.backend out to use nccl if a GPU is present, else gloo.",
     .check = nullptr},
    {.id = "launch.environment",
     .summary = "the launcher's variables are complete and consistent",
     .explain =
         "Under torchrun, Slurm, MPI or Kubernetes each process reads its rank and its peers from "
         "environment variables. Some of them without the others, or a rank that is not below the "
         "world's size, would make a job that waits for a rank that never starts.\n\n"
         "Start am-run without those variables to let it start this machine's ranks itself.",
     .check = nullptr},
}};

}  // namespace

std::span<const Rule> runtime_rules() { return kRules; }

}  // namespace am::rules
