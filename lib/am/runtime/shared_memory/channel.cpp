#include "am/runtime/shared_memory/channel.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "am/base/text.h"

namespace am::runtime::shared_memory {

namespace {

using std::chrono::milliseconds;

// Longest sleep of a waiting thread. After each sleep, the thread checks the deadline, whether the
// peer's process has ended, and whether the peer or this rank has left the channel.
constexpr milliseconds kNap{50};
constexpr int kSpins = 400;  // number of polls, a few microseconds, before a thread sleeps
constexpr size_t kCounts = 3;

using Word = std::atomic<uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 4, "a futex is a 32-bit word");

void sleep_while(const Word& word, uint32_t value, milliseconds most) {
  const timespec nap = {0, static_cast<int64_t>(most.count()) * 1000000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &nap, nullptr, 0);
}

void wake_all(const Word& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool has_come(const Word& word, uint32_t value) {
  return static_cast<int32_t>(word.load(std::memory_order_acquire) - value) >= 0;
}

bool yes(const std::string& text) { return text == "yes"; }

int open_process(int32_t process) {
  return static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
}

// Returns whether pidfd_open works. The call requires Linux 5.3, and a sandbox may forbid it.
bool can_watch_processes() {
  const int fd = open_process(::getpid());
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

}  // namespace

// The state of one rank, in separate cache lines. Only this rank writes the state, except that
// waiting peers change `sleepers`.
struct alignas(128) Channel::Line {
  struct Counter {
    Word value{0};
    Word sleepers{0};  // number of threads that sleep until `value` changes
  };
  struct Round {
    std::atomic<uint64_t> label{0};
    std::atomic<uint32_t> slot{0};
  };

  Counter counters[kCounts];
  Word left{0};
  std::atomic<int32_t> process{0};
  Round rounds[kSlots];
};

size_t Channel::bytes_for(int64_t size) {
  return static_cast<size_t>(size) * (sizeof(Line) + kSlots * kSlotBytes);
}

Channel::Channel(Segment segment, int64_t index, int64_t size, ChannelOptions options)
    : segment_(std::move(segment)), index_(index), size_(size), options_(std::move(options)) {
  line(index).process = ::getpid();
}

Channel::~Channel() {
  leave();
  for (const int process : processes_) {
    if (process >= 0) ::close(process);
  }
}

// The lines follow the slots of all ranks. A new segment is zeroed, which is a valid initial Line.
Channel::Line& Channel::line(int64_t rank) const {
  return reinterpret_cast<Line*>(segment_.data() +
                                 static_cast<size_t>(size_) * kSlots * kSlotBytes)[rank];
}

std::byte* Channel::slot(int64_t rank, uint32_t number) const {
  return segment_.data() + (static_cast<size_t>(rank) * kSlots + number) * kSlotBytes;
}

// The modulo keeps the slot's number in range, because the rank's process may write any number.
Channel::Entry Channel::entry(int64_t rank, uint32_t round) const {
  const Line::Round& said = line(rank).rounds[round % kSlots];
  return {said.label.load(std::memory_order_relaxed),
          said.slot.load(std::memory_order_relaxed) % kSlots};
}

void Channel::set_entry(uint32_t round, const Entry& entry) const {
  Line::Round& said = line(index_).rounds[round % kSlots];
  said.label.store(entry.label, std::memory_order_relaxed);
  said.slot.store(entry.slot, std::memory_order_relaxed);
}

std::unique_ptr<Channel> Channel::meet(c10d::Store& store, int64_t index, int64_t size,
                                       const ChannelOptions& options) {
  const bool possible = options.wanted && can_watch_processes();
  std::optional<Segment> segment;
  if (index == 0) {
    if (possible) segment = Segment::create(bytes_for(size));
    store.set("offer", segment ? segment->address() : std::string());
  } else {
    const std::string offer = store.get_to_str("offer");
    if (possible) segment = Segment::open(offer, bytes_for(size));
  }
  std::unique_ptr<Channel> channel;
  if (segment) channel.reset(new Channel(std::move(*segment), index, size, options));
  if (index != 0) {
    store.set(cat("answer/", index), std::string(channel ? "yes" : "no"));
    if (!yes(store.get_to_str("decision"))) return nullptr;
  } else {
    bool all = channel != nullptr;
    for (int64_t i = 1; i < size; ++i) all = yes(store.get_to_str(cat("answer/", i))) && all;
    store.set("decision", std::string(all ? "yes" : "no"));
    if (!all) return nullptr;
  }
  channel->segment_.close_address();
  channel->watch_peers();
  return channel;
}

// Note [A peer that dies]: if a process dies, its connections notify their other ends, but shared
// memory does not. Each rank therefore holds a pidfd of each peer's process. The pidfd becomes
// readable when the process has ended, even before the process's parent reaps it.
void Channel::watch_peers() {
  processes_.assign(static_cast<size_t>(size_), -1);
  for (int64_t i = 0; i < size_; ++i) {
    const int32_t process = line(i).process;
    if (process == ::getpid()) continue;  // this rank, or a rank in another thread of this process
    const int fd = open_process(process);
    if (fd < 0) throw std::runtime_error(cat("cannot watch the process of ", name(i)));
    processes_[static_cast<size_t>(i)] = fd;
  }
}

void Channel::reach(Count count, uint32_t value) const {
  Line::Counter& mine = line(index_).counters[static_cast<size_t>(count)];
  mine.value.store(value, std::memory_order_seq_cst);
  if (mine.sleepers.load(std::memory_order_seq_cst) > 0) wake_all(mine.value);
}

uint32_t Channel::value(int64_t rank, Count count) const {
  return line(rank).counters[static_cast<size_t>(count)].value.load(std::memory_order_acquire);
}

std::string Channel::why_gone(int64_t peer, bool ask_system) const {
  if (line(peer).left.load() != 0) return cat(name(peer), " left the group");
  if (!ask_system) return {};
  pollfd process = {processes_[static_cast<size_t>(peer)], POLLIN, 0};
  const bool ended = process.fd >= 0 && ::poll(&process, 1, 0) > 0;
  return ended ? cat("the process of ", name(peer), " ended") : std::string();
}

std::string Channel::why_gone(int64_t peer) const { return why_gone(peer, true); }

// Returns why waiting for the peer is hopeless; empty: continue to wait. The peer may reach the
// awaited count just before it leaves, so the caller checks the count again before it throws.
std::string Channel::hopeless(int64_t peer, Clock::time_point deadline, bool ask_system) const {
  if (has_left()) return "the group was aborted";
  if (std::string reason = why_gone(peer, ask_system); !reason.empty()) return reason;
  return Clock::now() >= deadline ? cat("timed out waiting for ", name(peer)) : std::string();
}

void Channel::wait_for(int64_t peer, Count count, uint32_t value,
                       Clock::time_point deadline) const {
  Line::Counter& other = line(peer).counters[static_cast<size_t>(count)];
  for (int i = 0; options_.spin && i < kSpins && !has_come(other.value, value); ++i) pause();
  for (int naps = 0; !has_come(other.value, value); ++naps) {
    const std::string reason = hopeless(peer, deadline, naps > 0);
    if (!reason.empty()) {
      if (has_come(other.value, value)) return;  // the peer reached the count just before it left
      throw std::runtime_error(reason);
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    other.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = other.value.load(std::memory_order_seq_cst);
    if (static_cast<int32_t>(seen - value) < 0) {
      sleep_while(other.value, seen, std::clamp(left, milliseconds(1), kNap));
    }
    other.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
}

bool Channel::has_left() const { return line(index_).left.load() != 0; }

std::string Channel::name(int64_t peer) const {
  const auto number = static_cast<size_t>(peer);
  return cat("rank ", number < options_.ranks.size() ? options_.ranks[number] : peer);
}

void Channel::leave() const {
  if (line(index_).left.exchange(1) != 0) return;
  for (int64_t i = 0; i < size_; ++i) {
    for (const Line::Counter& counter : line(i).counters) wake_all(counter.value);
  }
}

}  // namespace am::runtime::shared_memory
