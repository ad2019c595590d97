// time_attention HEADS KEY_HEADS LENGTH WIDTH: measures forward and backward of causal attention
// over one sequence that is sharded over all ranks, by each method of context parallelism. LENGTH
// is the number of positions of the whole sequence, WIDTH the head dim. The process is one rank of
// a job on this machine. It needs the environment variables (RANK, WORLD_SIZE, ...) of am-run's
// ranks. Rank 0 prints "METHOD FORWARD BACKWARD", the best times in seconds.
// scripts/bench/context.py starts this program.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "am/compat/distributed.h"
#include "am/parallel/cp/all_gather.h"
#include "am/parallel/cp/ring.h"
#include "am/parallel/cp/ulysses.h"

namespace {

using namespace am;
using parallel::cp::SequenceGroup;

using Method = at::Tensor (*)(const nn::Qkv&, const nn::AttentionParams&,
                              const std::optional<at::Tensor>&, const SequenceGroup&);
struct Case {
  const char* name;
  Method attend;
  mesh::SequenceOrder order;
};
constexpr Case kCases[] = {
    {"ring", &parallel::cp::ring_attention, mesh::SequenceOrder::kHeadTail},
    {"all_gather", &parallel::cp::all_gather_attention, mesh::SequenceOrder::kHeadTail},
    {"ulysses", &parallel::cp::ulysses_attention, mesh::SequenceOrder::kContiguous},
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void time_method(const Case& one, const runtime::Group& group, const std::vector<int64_t>& sizes) {
  const int64_t heads = sizes[0], key_heads = sizes[1], local = sizes[2] / group.size();
  const int64_t width = sizes[3];
  const SequenceGroup ranks = {&group, one.order};
  const auto made = [&](int64_t count) { return at::randn({1, count, local, width}); };
  double best_forward = 1e9, best_backward = 1e9;
  for (int round = 0; round < 4; ++round) {
    const nn::Qkv in = {made(heads).requires_grad_(), made(key_heads).requires_grad_(),
                        made(key_heads).requires_grad_()};
    group.barrier();
    auto start = std::chrono::steady_clock::now();
    const nn::AttentionParams params = {.scale = 1.0 / std::sqrt(static_cast<double>(width))};
    const at::Tensor out = one.attend(in, params, std::nullopt, ranks);
    best_forward = std::min(best_forward, seconds_since(start));
    const at::Tensor of_out = at::randn_like(out);
    group.barrier();
    start = std::chrono::steady_clock::now();
    torch::autograd::backward({out}, {of_out});
    best_backward = std::min(best_backward, seconds_since(start));
  }
  if (group.index() != 0) return;
  std::printf("%s %.6f %.6f\n", one.name, best_forward, best_backward);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    std::vector<int64_t> sizes;
    for (const std::string& word : words) sizes.push_back(std::stoll(word));
    if (sizes.size() != 4) throw std::invalid_argument("HEADS KEY_HEADS LENGTH WIDTH");
    at::set_num_threads(1);
    at::manual_seed(1);
    compat::Distributed dist;
    dist.join({.timeout = std::chrono::seconds(120)});
    for (const Case& one : kCases) time_method(one, dist.world().group(), sizes);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
