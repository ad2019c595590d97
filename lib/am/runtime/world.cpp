#include "am/runtime/world.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/runtime/torch_error.h"

namespace am::runtime {

namespace {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || starts_with(host, "127.");
}

}  // namespace

World World::single() { return {}; }

World World::connect(const launch::RankEnvironment& environment,
                     std::chrono::milliseconds timeout) {
  World world;
  world.rank_ = environment.rank;
  world.size_ = environment.world_size;
  world.timeout_ = timeout;
  if (world.size_ == 1) return world;
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(environment.master_port);
  options.isServer = environment.rank == 0;
  options.numWorkers = static_cast<size_t>(environment.world_size);
  options.waitWorkers = true;
  options.timeout = timeout;
  try {
    world.store_ = c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kPeer,
                cat("rank ", world.rank_, ": cannot join the job at ", environment.master_addr, ":",
                    environment.master_port, ": ", first_line(error)),
                "check MASTER_ADDR and MASTER_PORT, and that all ranks were started");
  }
  world.device_ = is_loopback(environment.master_addr)
                      ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                      : c10d::ProcessGroupGloo::createDefaultDevice();
  return world;
}

World World::in_process(int64_t rank, int64_t size, c10::intrusive_ptr<c10d::Store> store,
                        std::chrono::milliseconds timeout) {
  World world;
  world.rank_ = rank;
  world.size_ = size;
  world.timeout_ = timeout;
  world.device_ = c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  world.store_ = std::move(store);
  return world;
}

Group World::make_group(const std::string& name, std::vector<int64_t> ranks) const {
  const auto self = std::find(ranks.begin(), ranks.end(), rank_);
  AM_ASSERT(self != ranks.end(), "a rank makes only the groups it is in");
  const int64_t index = self - ranks.begin();
  if (ranks.size() == 1) return Group(name, std::move(ranks), index, nullptr);
  try {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout_);
    options->devices.push_back(device_);
    options->threads = 1;
    auto prefixed = c10::make_intrusive<c10d::PrefixStore>(name, store_);
    auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
        prefixed, static_cast<int>(index), static_cast<int>(ranks.size()), options);
    return Group(name, std::move(ranks), index, std::move(backend));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kPeer,
                cat("rank ", rank_, ": cannot connect group ", name, " (ranks ",
                    join(std::span<const int64_t>(ranks), ", "), "): ", first_line(error)),
                "a peer rank went away or did not arrive in time; look at its log");
  }
}

// Note [Flight recorder]: c10d keeps one flight recorder a process, and part of what it records for
// Gloo is not locked. One rank a process never notices; ranks in threads crash it. It reads its
// size (0: off) at its first use.
void run_ranks(int64_t size, const std::function<void(const World&)>& body,
               std::chrono::milliseconds timeout) {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> ranks;
  for (int64_t rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        body(World::in_process(rank, size, store, timeout));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace am::runtime
