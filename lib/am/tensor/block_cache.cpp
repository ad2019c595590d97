#include "am/tensor/block_cache.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>

namespace am::tensor {

namespace {

constexpr size_t kPage = 4096;
// Slack of the budget (block_cache.h): 1/kSpare of the most bytes that were ever in use. Without
// slack, no freed block could be kept at the peak of a step. Every step would then allocate the
// blocks again that are not in use at the peak.
constexpr size_t kSpare = 256;

// Rounds up to whole pages, so that tensors of nearly equal size share blocks.
size_t rounded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Maps `bytes` bytes of zeroed memory; returns null if the system does not have enough.
void* ask_system(size_t bytes) {
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return nullptr;
#if defined(MADV_HUGEPAGE)
  // Requests huge pages, which cause fewer page faults; the kernel may ignore the request.
  ::madvise(start, bytes, MADV_HUGEPAGE);
#endif
  return start;
}

// Returns the process's cache. It is never destroyed, because static tensors may be freed after the
// cache's destructor would run.
BlockCache& cache_of_process() {
  static auto* cache = new BlockCache();
  return *cache;
}

// Allocator of host tensors: large blocks come from the cache, small ones from the allocator that
// was installed before. All blocks have one deleter, because oneDNN calls the deleter with nothing
// but a block's address.
class CachedAllocator final : public c10::Allocator {
 public:
  explicit CachedAllocator(c10::Allocator* small) { small_ = small; }

  c10::DataPtr allocate(size_t bytes) override {
    void* block = nullptr;
    if (bytes < BlockCache::kSmallest) {
      block = small_->raw_allocate(bytes);
    } else {
      block = cache_of_process().take(bytes);
      c10::profiledCPUMemoryReporter().New(block, bytes);
    }
    return {block, block, &give_back, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

 private:
  static void give_back(void* block) {
    if (!cache_of_process().gave(block)) return small_->raw_deallocate(block);
    c10::profiledCPUMemoryReporter().Delete(block);
    cache_of_process().give(block);
  }

  static inline c10::Allocator* small_ = nullptr;
};

}  // namespace

BlockCache::~BlockCache() {
  while (!waiting_.empty()) drop(waiting_.begin());
}

void BlockCache::drop(std::list<Block>::iterator block) {
  counts_.waiting -= block->bytes;
  ::munmap(block->start, block->bytes);
  waiting_.erase(block);
}

// Unmaps waiting blocks (freed, but kept for reuse) until a new block of `bytes` fits into the
// budget. See Note [The budget] in block_cache.h.
void BlockCache::make_room(size_t bytes) {
  const size_t in_use = counts_.in_use + bytes;
  const size_t most = std::max(counts_.most, in_use) / kSpare * (kSpare + 1);
  while (!waiting_.empty() && in_use + counts_.waiting > most) {
    const size_t excess = in_use + counts_.waiting - most;
    auto best = waiting_.begin();
    for (auto block = waiting_.begin(); block != waiting_.end(); ++block) {
      const bool enough = block->bytes >= excess;
      const bool better = enough ? best->bytes < excess || block->bytes < best->bytes
                                 : best->bytes < excess && block->bytes > best->bytes;
      if (better) best = block;
    }
    drop(best);
  }
}

void* BlockCache::take(size_t bytes) {
  const size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  // Reuses the block that was freed last, because it is most likely still in the processor's
  // caches.
  const auto found = std::find_if(waiting_.rbegin(), waiting_.rend(),
                                  [&](const Block& block) { return block.bytes == size; });
  void* start = nullptr;
  if (found != waiting_.rend()) {
    start = found->start;
    counts_.waiting -= size;
    waiting_.erase(std::prev(found.base()));
  } else {
    make_room(size);
    start = ask_system(size);
    if (start == nullptr && !waiting_.empty()) {
      while (!waiting_.empty()) drop(waiting_.begin());
      start = ask_system(size);
    }
    if (start == nullptr) throw std::bad_alloc();
    ++counts_.asked;
  }
  sizes_[start] = size;
  counts_.in_use += size;
  counts_.most = std::max(counts_.most, counts_.in_use);
  return start;
}

bool BlockCache::gave(const void* block) const {
  if (reinterpret_cast<uintptr_t>(block) % kPage != 0) return false;
  const std::lock_guard lock(mutex_);
  return sizes_.count(block) != 0;
}

void BlockCache::give(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(block);
  const size_t size = found->second;
  sizes_.erase(found);
  counts_.in_use -= size;
  counts_.waiting += size;
  waiting_.push_back({block, size});
}

BlockCache::Counts BlockCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void BlockCache::install() {
#if defined(__GLIBC__)
  // Makes malloc, which serves small tensors and buffers inside kernels, keep freed memory too.
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
  static CachedAllocator allocator(c10::GetAllocator(c10::kCPU));
  static const bool once = [] {
    c10::SetCPUAllocator(&allocator, /*priority=*/1);
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace am::tensor
