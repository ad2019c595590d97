#include "am/runtime/shared_memory/exchange.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "am/base/text.h"

namespace am::runtime::shared_memory {

namespace {

enum class Kind : uint8_t { kAllGather = 1, kReduceScatter, kAllReduce, kBroadcast };

// Below this every rank sums all by itself: to wait once more takes longer.
constexpr int64_t kSmall = 16 << 10;

uint64_t label_of(Kind kind, uint64_t detail, int64_t amount) {
  return static_cast<uint64_t>(kind) << 56 | (detail & 0xFFFF) << 40 |
         (static_cast<uint64_t>(amount) & 0xFFFFFFFFFF);
}

uint64_t detail_of(c10::ScalarType dtype, Operation operation) {
  return static_cast<uint64_t>(dtype) << 8 | static_cast<uint64_t>(operation);
}

std::string text_of(uint64_t label) {
  const uint64_t amount = label & 0xFFFFFFFFFF;
  switch (static_cast<Kind>(label >> 56)) {
    case Kind::kAllGather:
      return cat("all_gather of ", amount, " bytes");
    case Kind::kReduceScatter:
      return cat("reduce_scatter of ", amount, " elements");
    case Kind::kAllReduce:
      return cat("all_reduce of ", amount, " elements");
    case Kind::kBroadcast:
      return cat("broadcast of ", amount, " bytes");
  }
  return "none";
}

// Stages of a round; see Note [Rounds].
uint32_t shown_stage(uint32_t round) { return 3 * round + 1; }
uint32_t reduced_stage(uint32_t round) { return 3 * round + 2; }
uint32_t done_stage(uint32_t round) { return 3 * round + 3; }

// The elements of `count` that are rank `rank`'s to sum.
int64_t part_begin(int64_t count, int64_t rank, int64_t ranks) { return count * rank / ranks; }

void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

void Exchange::guarded(uint64_t label, const std::function<void()>& body) {
  if (!broken_.empty()) throw std::runtime_error(broken_);
  if (channel_.has_left()) throw std::runtime_error("the group was aborted");
  label_ = label;
  try {
    body();
  } catch (const std::exception& error) {
    broken_ = error.what();
    channel_.leave();
    throw;
  }
}

std::byte* Exchange::begin(Deadline deadline) {
  for (int64_t peer = 0; peer < channel_.size(); ++peer) {
    if (peer != channel_.index())
      channel_.wait_for(peer, done_stage(round_ - Channel::kSlots), deadline);
  }
  channel_.set_label(round_, label_);
  return channel_.slot(channel_.index(), round_);
}

void Exchange::show() { channel_.reach(shown_stage(round_)); }

const std::byte* Exchange::shown(int64_t peer, Deadline deadline) {
  channel_.wait_for(peer, shown_stage(round_), deadline);
  const uint64_t theirs = channel_.label(peer, round_);
  if (theirs != label_) {
    throw std::runtime_error(cat(channel_.name(peer), " is in another collective: ",
                                 text_of(theirs), ", and this rank in ", text_of(label_)));
  }
  return channel_.slot(peer, round_);
}

void Exchange::end() { channel_.reach(done_stage(round_++)); }

void Exchange::all_gather(void* out, const void* in, int64_t bytes, Deadline deadline) {
  guarded(label_of(Kind::kAllGather, 0, bytes), [&] {
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    const int64_t size = channel_.size();
    for (int64_t at = 0; at < bytes; at += Channel::kSlotBytes) {
      const int64_t some = std::min<int64_t>(Channel::kSlotBytes, bytes - at);
      copy_bytes(begin(deadline), from + at, some);
      show();
      copy_bytes(to + channel_.index() * bytes + at, from + at, some);
      for (int64_t step = 1; step < size; ++step) {
        const int64_t peer = (channel_.index() + step) % size;
        copy_bytes(to + peer * bytes + at, shown(peer, deadline), some);
      }
      end();
    }
  });
}

void Exchange::reduce_scatter(void* out, const void* in, int64_t count, c10::ScalarType dtype,
                              Operation operation, Deadline deadline) {
  guarded(label_of(Kind::kReduceScatter, detail_of(dtype, operation), count), [&] {
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    const auto width = static_cast<int64_t>(c10::elementSize(dtype));
    const int64_t size = channel_.size();
    // The slot's part for each rank: whole cache lines.
    const int64_t part = static_cast<int64_t>(Channel::kSlotBytes) / size / 64 * 64;
    std::vector<const void*> rows(static_cast<size_t>(size));
    for (int64_t at = 0; at < count; at += part / width) {
      const int64_t some = std::min(part / width, count - at);
      std::byte* const mine = begin(deadline);
      for (int64_t peer = 0; peer < size; ++peer) {
        const auto* theirs = from + (peer * count + at) * width;
        if (peer != channel_.index()) copy_bytes(mine + peer * part, theirs, some * width);
      }
      show();
      for (int64_t peer = 0; peer < size; ++peer) {
        rows[static_cast<size_t>(peer)] = peer == channel_.index()
                                              ? from + (peer * count + at) * width
                                              : shown(peer, deadline) + channel_.index() * part;
      }
      combine(dtype, operation, to + at * width, rows, some);
      end();
    }
  });
}

void Exchange::all_reduce(void* data, int64_t count, c10::ScalarType dtype, Operation operation,
                          Deadline deadline) {
  guarded(label_of(Kind::kAllReduce, detail_of(dtype, operation), count), [&] {
    const auto width = static_cast<int64_t>(c10::elementSize(dtype));
    const int64_t most = static_cast<int64_t>(Channel::kSlotBytes) / width;
    for (int64_t at = 0; at < count; at += most) {
      auto* const here = static_cast<std::byte*>(data) + at * width;
      const int64_t some = std::min(most, count - at);
      if (channel_.size() == 2 || some * width <= kSmall) {
        reduce_round_for_all(here, some, dtype, operation, deadline);
      } else {
        reduce_round_in_parts(here, some, dtype, operation, deadline);
      }
    }
  });
}

// Every rank shows all and sums all.
void Exchange::reduce_round_for_all(std::byte* data, int64_t count, c10::ScalarType dtype,
                                    Operation operation, Deadline deadline) {
  const auto width = static_cast<int64_t>(c10::elementSize(dtype));
  std::vector<const void*> rows(static_cast<size_t>(channel_.size()));
  copy_bytes(begin(deadline), data, count * width);
  show();
  for (int64_t peer = 0; peer < channel_.size(); ++peer) {
    rows[static_cast<size_t>(peer)] = peer == channel_.index() ? data : shown(peer, deadline);
  }
  combine(dtype, operation, data, rows, count);
  end();
}

// Every rank shows all, sums its part, and shows the sum in its place.
void Exchange::reduce_round_in_parts(std::byte* data, int64_t count, c10::ScalarType dtype,
                                     Operation operation, Deadline deadline) {
  const auto width = static_cast<int64_t>(c10::elementSize(dtype));
  const int64_t size = channel_.size();
  const auto begin_of = [&](int64_t rank) { return part_begin(count, rank, size) * width; };
  const auto bytes_of = [&](int64_t rank) { return begin_of(rank + 1) - begin_of(rank); };
  const int64_t own = begin_of(channel_.index());
  const int64_t own_end = own + bytes_of(channel_.index());
  std::byte* const mine = begin(deadline);
  copy_bytes(mine, data, own);
  copy_bytes(mine + own_end, data + own_end, count * width - own_end);
  show();
  std::vector<const void*> rows(static_cast<size_t>(size));
  for (int64_t peer = 0; peer < size; ++peer) {
    rows[static_cast<size_t>(peer)] =
        (peer == channel_.index() ? data : shown(peer, deadline)) + own;
  }
  combine(dtype, operation, data + own, rows, bytes_of(channel_.index()) / width);
  copy_bytes(mine + own, data + own, own_end - own);
  channel_.reach(reduced_stage(round_));
  for (int64_t step = 1; step < size; ++step) {
    const int64_t peer = (channel_.index() + step) % size;
    channel_.wait_for(peer, reduced_stage(round_), deadline);
    copy_bytes(data + begin_of(peer), channel_.slot(peer, round_) + begin_of(peer), bytes_of(peer));
  }
  end();
}

void Exchange::broadcast(void* data, int64_t bytes, int64_t root, Deadline deadline) {
  guarded(label_of(Kind::kBroadcast, static_cast<uint64_t>(root), bytes), [&] {
    for (int64_t at = 0; at < bytes; at += Channel::kSlotBytes) {
      auto* const here = static_cast<std::byte*>(data) + at;
      const int64_t some = std::min<int64_t>(Channel::kSlotBytes, bytes - at);
      std::byte* const mine = begin(deadline);
      if (channel_.index() == root) copy_bytes(mine, here, some);
      show();
      if (channel_.index() != root) copy_bytes(here, shown(root, deadline), some);
      end();
    }
  });
}

}  // namespace am::runtime::shared_memory
