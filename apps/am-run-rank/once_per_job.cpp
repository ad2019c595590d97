#include "once_per_job.h"

#include <chrono>
#include <string>
#include <thread>

#include "am/runtime/store.h"

namespace am_run {

using namespace am;

bool prints_for_all(const launch::RankEnvironment& here) {
  if (here.world_size == 1) return true;
  constexpr auto kPatience = std::chrono::seconds(5);
  const std::string invalid = "plan/invalid";
  const std::string heard = "plan/heard";
  try {
    const auto store = runtime::connect_store(here, kPatience);
    if (here.rank != 0) {
      store->wait({invalid}, kPatience);
      store->add(heard, 1);
      return false;
    }
    runtime::store_set(*store, invalid, "yes");
    // Rank 0's process may serve the store, so rank 0 must not exit before the other ranks have
    // read the entry.
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (store->add(heard, 0) < here.world_size - 1 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  } catch (const std::exception&) {
    // Rank 0 has another plan or cannot be reached; therefore every rank reports its own error.
  }
  return true;
}

}  // namespace am_run
