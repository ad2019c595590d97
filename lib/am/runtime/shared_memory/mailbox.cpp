#include "am/runtime/shared_memory/mailbox.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "am/base/text.h"
#include "am/runtime/shared_memory/label.h"

namespace am::runtime::shared_memory {

namespace {

constexpr int64_t kSender = 0, kReceiver = 1;

uint64_t label_of(const at::Tensor& tensor) {
  return label_of(Kind::kMessage, static_cast<uint64_t>(tensor.scalar_type()),
                  static_cast<int64_t>(tensor.nbytes()));
}

}  // namespace

class Mailbox::Message final : public c10d::Work {
 public:
  Message(std::shared_ptr<Mailbox> mailbox, uint64_t number)
      : mailbox_(std::move(mailbox)), number_(number) {}
  ~Message() override { mailbox_->take_back(number_); }

  bool isCompleted() override { return mailbox_->is_over(number_); }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    mailbox_->wait(number_);
    return true;
  }

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  const uint64_t number_;
};

Mailbox::Mailbox(std::unique_ptr<Channel> channel, std::chrono::milliseconds timeout)
    : channel_(std::move(channel)), timeout_(timeout), rounds_(*channel_) {}

Mailbox::~Mailbox() {
  leave();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Mailbox::leave() { channel_->leave(); }

c10::intrusive_ptr<c10d::Work> Mailbox::post(const at::Tensor& tensor) {
  // Declared before the lock, and therefore destroyed after the lock is released: the destructor of
  // the work locks the mutex too.
  c10::intrusive_ptr<c10d::Work> work;
  std::unique_lock lock(mutex_);
  if (channel_->has_left()) fail("the group was aborted");
  // After the sender has left, a receiver may still post, because the slots may contain data of the
  // sender.
  if (sends()) {
    if (const std::string reason = channel_->why_gone(kReceiver); !reason.empty()) fail(reason);
  }
  if (!broken_.empty()) throw std::runtime_error(broken_);
  posted_.push_back({next_, tensor, 0});
  work = c10::make_intrusive<Message>(shared_from_this(), next_++);
  while (move_some()) {
  }
  if (posted_.empty() || !broken_.empty()) return work;
  if (!thread_.joinable()) thread_ = std::thread([this] { run_thread(); });
  changed_.notify_all();
  return work;
}

std::deque<Mailbox::Posted>::iterator Mailbox::find(uint64_t number) {
  return std::find_if(posted_.begin(), posted_.end(),
                      [&](const Posted& each) { return each.number == number; });
}

bool Mailbox::is_over(uint64_t number) {
  const std::lock_guard lock(mutex_);
  return find(number) == posted_.end();
}

void Mailbox::wait(uint64_t number) {
  const auto deadline =
      timeout_.count() > 0 ? Channel::Clock::now() + timeout_ : Rounds::Deadline::max();
  std::unique_lock lock(mutex_);
  while (find(number) != posted_.end()) {
    if (!broken_.empty()) throw std::runtime_error(broken_);
    if (!move_some()) wait_for_peer(lock, deadline);
  }
}

void Mailbox::take_back(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = find(number);
  if (found == posted_.end()) return;
  if (found->moved > 0) fail("a message was cancelled after a part of it had been transferred");
  posted_.erase(found);
}

void Mailbox::fail(const std::string& reason) {
  if (broken_.empty()) broken_ = reason;
  channel_->leave();
}

// Transfers a part of the first message if a slot is ready. Returns whether a part was transferred.
bool Mailbox::move_some() {
  if (posted_.empty() || !broken_.empty()) return false;
  if (!(sends() ? rounds_.can_write() : rounds_.all_shown())) return false;
  try {
    move_part(posted_.front());
  } catch (const std::exception& error) {
    fail(error.what());
    return false;
  }
  if (posted_.front().moved == static_cast<int64_t>(posted_.front().tensor.nbytes())) {
    posted_.pop_front();
  }
  return true;
}

void Mailbox::move_part(Posted& message) {
  auto* const at = static_cast<std::byte*>(message.tensor.mutable_data_ptr()) + message.moved;
  const int64_t left = static_cast<int64_t>(message.tensor.nbytes()) - message.moved;
  const int64_t bytes = std::min<int64_t>(left, Channel::kSlotBytes);
  const uint64_t label = label_of(message.tensor);
  // The deadline may be now: move_some() has checked that write() and shown() do not need to wait.
  const auto now = Channel::Clock::now();
  if (sends()) {
    copy_bytes(rounds_.write(now), at, bytes);
    rounds_.show(label);
  } else {
    copy_bytes(at, rounds_.shown(kSender, label, now), bytes);
    rounds_.done();
  }
  message.moved += bytes;
}

void Mailbox::wait_for_peer(std::unique_lock<std::mutex>& lock, Rounds::Deadline deadline) {
  if (!broken_.empty()) return;
  const int64_t peer = sends() ? kReceiver : kSender;
  const Count count = sends() ? Count::kDone : Count::kShown;
  const uint32_t value =
      sends() ? rounds_.count_shown() - Channel::kSlots + 1 : rounds_.count_done() + 1;
  lock.unlock();
  std::string reason;
  try {
    channel_->wait_for(peer, count, value, deadline);
  } catch (const std::exception& error) {
    reason = error.what();
  }
  lock.lock();
  if (!reason.empty()) fail(reason);
}

void Mailbox::run_thread() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (posted_.empty() || !broken_.empty()) {
      changed_.wait(lock);
    } else if (move_some()) {
      lock.unlock();  // so that other threads can post
      lock.lock();
    } else {
      wait_for_peer(lock, Rounds::Deadline::max());
    }
  }
}

}  // namespace am::runtime::shared_memory
