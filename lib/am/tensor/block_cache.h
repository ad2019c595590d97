// Memory of large host tensors, kept for the next tensor of the same size instead of given back.
//
// malloc gives large blocks back to the system, so that each tensor of a training step pays for its
// pages again (the system clears them: a tenth of a step); or it keeps them in its heap, where
// tensors of many sizes leave holes (a tenth of the memory). A step asks for the same sizes over
// and over. So a block that is freed waits here for a tensor of its size, under one rule: blocks in
// use and blocks that wait never take more than blocks in use took at their most, and 1/64 of it.
// What a process needs at its fullest moment is nearly what it takes; a step after the first asks
// the system for nothing.
//
//   BlockCache::install();   // a program that trains, before its first tensor; a library never
//
// Note [The budget]: where a new block would exceed the budget, one that waits is given back: the
// smallest that makes enough room, of several such the one that waited longest; else the largest,
// and again. Where the system has none, all that wait are given back first.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

namespace am::tensor {

// Thread-safe.
class BlockCache {
 public:
  // Smaller ones are malloc's.
  static constexpr size_t kSmallest = size_t{1} << 20;

  BlockCache() = default;
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Aligned to pages; contents are whatever was there. Throws std::bad_alloc.
  void* take(size_t bytes);
  // What take() gave.
  void give(void* block);
  // Whether `block` is in use and came from here.
  bool gave(const void* block) const;

  struct Counts {
    size_t in_use = 0;   // bytes
    size_t most = 0;     // of in_use
    size_t waiting = 0;  // bytes
    int64_t asked = 0;   // blocks that came from the system
  };
  Counts counts() const;

  // Makes a cache of the process the source of host tensors' memory, for good; once is enough.
  static void install();

 private:
  struct Block {
    void* start;
    size_t bytes;
  };
  void drop(std::list<Block>::iterator block);
  void make_room(size_t bytes);

  mutable std::mutex mutex_;
  std::unordered_map<const void*, size_t> sizes_;  // of blocks in use
  std::list<Block> waiting_;                       // the one that waits longest first
  Counts counts_;
};

}  // namespace am::tensor
