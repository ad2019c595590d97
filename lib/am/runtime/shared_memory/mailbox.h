// Messages from index 0 to index 1 of a channel of two ranks.
//
//   const auto mailbox = std::make_shared<Mailbox>(std::move(channel), timeout);
//   auto work = mailbox->post(tensor);     // at both ends; index 0 sends
//   work->wait();
//
// Note [Messages]: both ends keep a list of posted messages. The sender has several slots in the
// shared memory (rounds.h). Whenever a slot is free, the sender copies the next part of its first
// message to the slot; whenever a slot is full, the receiver copies the part from the slot. Three
// threads may copy: the thread that calls post(), a thread that waits for a message, and the
// mailbox's own thread, which starts when a message is incomplete after its post. A sender can
// therefore fill all slots before the receiver posts, two ranks that send to each other make
// progress without waiting, and a message that is already in the slots costs no thread switch.
// Timeouts apply to waits: a message may stay pending while no thread waits for it.
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
  // `timeout`: limit of each wait for a message; 0: no limit.
  Mailbox(std::unique_ptr<Channel> channel, std::chrono::milliseconds timeout);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Posts a contiguous tensor: its values are sent at index 0, and received at index 1. If the
  // returned work is destroyed before the transfer of its message has begun, the message is
  // cancelled. If the work is destroyed when only a part of the message has been transferred, the
  // mailbox leaves the channel, because the other end would have a partial message. Throws
  // std::runtime_error if the mailbox has left the channel or, at index 0, if the receiver has left
  // the channel or its process has ended.
  c10::intrusive_ptr<c10d::Work> post(const at::Tensor& tensor);
  // Ends this side's participation: threads that wait at this end or at the other end get an error.
  void leave();

 private:
  class Message;
  struct Posted {
    uint64_t number;
    at::Tensor tensor;
    int64_t moved;  // number of bytes that have been transferred
  };

  bool sends() const { return channel_->index() == 0; }
  std::deque<Posted>::iterator find(uint64_t number);
  bool is_over(uint64_t number);
  void wait(uint64_t number);
  void take_back(uint64_t number);

  // The caller of these three functions must hold `mutex_`.
  bool move_some();
  void move_part(Posted& message);
  void fail(const std::string& reason);
  // Waits until a part of the first message can be transferred; releases the lock meanwhile. If the
  // wait fails, calls fail().
  void wait_for_peer(std::unique_lock<std::mutex>& lock, Rounds::Deadline deadline);
  void run_thread();

  const std::unique_ptr<Channel> channel_;
  const std::chrono::milliseconds timeout_;

  std::mutex mutex_;
  std::condition_variable changed_;  // wakes the mailbox's thread
  Rounds rounds_;
  std::deque<Posted> posted_;  // messages that are not complete, in the order of their posts
  uint64_t next_ = 0;
  std::string broken_;  // reason why no message can be transferred any more; empty: none
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace am::runtime::shared_memory
