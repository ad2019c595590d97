// Messages from index 0 of a channel of two to index 1.
//
//   const auto mailbox = std::make_shared<Mailbox>(std::move(channel), timeout);
//   auto work = mailbox->post(tensor);     // at both ends; who is number 0 sends
//   work->wait();
//
// Note [Messages]: both ends have the messages that were posted in a list, and the first of it
// moves a slot's worth at a time whenever there is a free slot (or a full one): at the post itself,
// in whoever waits, and in a thread of the mailbox, which is started when a message is not over at
// its post. So a sender runs ahead of a receiver that is not there by all the slots, two ranks that
// send to each other need nobody's wait to move, and a message that is in the slots already costs
// no switch of threads. Timeouts are those of waits: a message may lie for as long as nobody waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "am/runtime/shared_memory/rounds.h"

namespace am::runtime::shared_memory {

class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  // A timeout of 0: none.
  Mailbox(std::unique_ptr<Channel> channel, std::chrono::milliseconds timeout);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Of a contiguous tensor. A work that is dropped before its message began takes it back; later
  // the other end would have half of it, so that this one leaves.
  c10::intrusive_ptr<c10d::Work> post(const at::Tensor& tensor);
  // This end takes part no more: who waits here or at the other end gets an error.
  void leave();

 private:
  class Message;
  struct Posted {
    uint64_t number;
    at::Tensor tensor;
    int64_t moved;  // bytes
  };

  bool sends() const { return channel_->index() == 0; }
  std::deque<Posted>::iterator find(uint64_t number);
  bool is_over(uint64_t number);
  void wait(uint64_t number);
  void take_back(uint64_t number);

  // With the lock held.
  bool move_some();
  void move_part(Posted& message);
  void fail(const std::string& reason);
  // Without it, until the first message may move.
  void wait_for_peer(std::unique_lock<std::mutex>& lock, Rounds::Deadline deadline);
  void run_thread();

  const std::unique_ptr<Channel> channel_;
  const std::chrono::milliseconds timeout_;

  std::mutex mutex_;
  std::condition_variable changed_;  // for the thread
  Rounds rounds_;
  std::deque<Posted> posted_;  // that are not over, in order
  uint64_t next_ = 0;
  std::string broken_;  // why nothing moves any more
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace am::runtime::shared_memory
