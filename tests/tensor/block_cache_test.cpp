// Tests the cache of freed blocks, which are reused for tensors of their size. Cached blocks and
// blocks in use together never exceed the peak of the bytes in use, times 1 + 1/256.
#include "am/tensor/block_cache.h"

#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>
#include <vector>

namespace am {

namespace {

constexpr size_t kMiB = size_t{1} << 20;

// While the object exists, this process's address space can grow by at most `bytes` bytes.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(size_t bytes) {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + bytes;
    REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  }
  ~AddressSpaceLimit() { ::setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace

TEST_CASE("a freed block serves the next of its size") {
  tensor::BlockCache cache;
  void* first = cache.take(3 * kMiB);
  std::memset(first, 1, 3 * kMiB);
  CHECK(cache.gave(first));
  CHECK_FALSE(cache.gave(static_cast<char*>(first) + 4096));
  cache.give(first);
  CHECK_FALSE(cache.gave(first));
  CHECK(cache.take(3 * kMiB - 100) == first);  // needs as many pages as 3 MiB
  CHECK(cache.counts().asked == 1);
  void* other = cache.take(2 * kMiB);
  CHECK(cache.counts().asked == 2);
  cache.give(first);
  cache.give(other);
  CHECK(cache.counts().in_use == 0);
}

TEST_CASE("what waits and what is used never exceed what was used at most") {
  tensor::BlockCache cache;
  void* a = cache.take(4 * kMiB);
  void* b = cache.take(6 * kMiB);
  CHECK(cache.counts().most == 10 * kMiB);
  cache.give(a);
  cache.give(b);
  CHECK(cache.counts().waiting == 10 * kMiB);
  // No cached block has this size. The smallest block that makes room for 5 MiB is freed.
  void* c = cache.take(5 * kMiB);
  CHECK(cache.counts().in_use == 5 * kMiB);
  CHECK(cache.counts().waiting == 4 * kMiB);
  CHECK(cache.counts().most == 10 * kMiB);
  void* d = cache.take(4 * kMiB);
  CHECK(d == a);
  cache.give(d);
  cache.give(c);
  void* large = cache.take(12 * kMiB);  // above the previous peak: all cached blocks are freed
  CHECK(cache.counts().waiting == 0);
  CHECK(cache.counts().most == 12 * kMiB);
  cache.give(large);
}

TEST_CASE("a part of what was used at most may wait beside it") {
  tensor::BlockCache cache;
  void* large = cache.take(400 * kMiB);
  void* small = cache.take(112 * kMiB);
  cache.give(large);
  cache.give(small);
  // The limit is 514 MiB: the peak of 512 MiB, plus 1/256. Both blocks stay cached.
  void* first = cache.take(2 * kMiB);
  CHECK(cache.counts().waiting == 512 * kMiB);
  // One more MiB exceeds the limit. The smallest block that makes room is freed.
  void* second = cache.take(1 * kMiB);
  CHECK(cache.counts().waiting == 400 * kMiB);
  cache.give(first);
  cache.give(second);
}

TEST_CASE("a repeated step asks the system for nothing") {
  tensor::BlockCache cache;
  const auto step = [&cache] {
    std::vector<void*> kept;
    for (int layer = 0; layer < 4; ++layer) {
      kept.push_back(cache.take(2 * kMiB));
      void* passing = cache.take(3 * kMiB);
      kept.push_back(cache.take(1 * kMiB));
      cache.give(passing);
    }
    while (!kept.empty()) {
      cache.give(kept.back());
      kept.pop_back();
    }
  };
  step();
  step();
  const int64_t asked = cache.counts().asked;
  step();
  CHECK(cache.counts().asked == asked);
}

TEST_CASE("a block that the system does not have is not counted") {
  tensor::BlockCache cache;
  void* small = cache.take(1 * kMiB);
  CHECK_THROWS_AS(cache.take(size_t{1} << 50), std::bad_alloc);
  CHECK(cache.counts().in_use == 1 * kMiB);
  CHECK(cache.counts().most == 1 * kMiB);
  cache.give(small);
}

TEST_CASE("what waits is given back before memory is said to be out") {
  tensor::BlockCache cache;
  std::vector<void*> blocks = {cache.take(64 * kMiB), cache.take(64 * kMiB)};
  for (void* block : blocks) cache.give(block);
  blocks = {cache.take(32 * kMiB)};
  REQUIRE(cache.counts().waiting == 64 * kMiB);
  {
    const AddressSpaceLimit limit(8 * kMiB);
    // The cache's own limit allows this block beside the cached block, but the system does not.
    blocks.push_back(cache.take(32 * kMiB));
  }
  CHECK(cache.counts().waiting == 0);
  CHECK(cache.counts().in_use == 64 * kMiB);
  for (void* block : blocks) cache.give(block);
}

TEST_CASE("blocks may be given back by other threads") {
  tensor::BlockCache cache;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 50; ++i) {
        auto* block = static_cast<char*>(cache.take((1 + static_cast<size_t>(i + t) % 3) * kMiB));
        block[0] = static_cast<char>(t);
        std::thread([&cache, block] { cache.give(block); }).join();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(cache.counts().in_use == 0);
  CHECK(cache.counts().waiting <= cache.counts().most);
}

}  // namespace am
