// Strategies in a shared library, named as in find_parallel_strategy("torch_strategy.so:whole").
#include <utility>

#include "am/parallel/strategy.h"

namespace {

// A strategy that shards in float32 and keeps all units gathered after forward.
am::parallel::Parallelized keep_whole(const am::parallel::StrategyInput& input) {
  am::parallel::Parallelized made;
  made.vocabulary_slice = am::parallel::prepare_decoder(input);
  am::parallel::DataParallelOptions options;
  options.reshard_after_forward.assign(input.layout.units.size(), false);
  made.data_parallel = am::parallel::apply_fsdp_sharding_recursively(input, std::move(options));
  return made;
}

am::parallel::Parallelized make_nothing(const am::parallel::StrategyInput& /*input*/) { return {}; }

constexpr am::parallel::StrategyPlugin kWhole = {AM_VERSION, keep_whole};
constexpr am::parallel::StrategyPlugin kEmpty = {AM_VERSION, make_nothing};
constexpr am::parallel::StrategyPlugin kOld = {"0.0.1", keep_whole};

}  // namespace

extern "C" {

const am::parallel::StrategyPlugin* whole() { return &kWhole; }
const am::parallel::StrategyPlugin* empty() { return &kEmpty; }
const am::parallel::StrategyPlugin* old() { return &kOld; }
const am::parallel::StrategyPlugin* nothing() { return nullptr; }
}
