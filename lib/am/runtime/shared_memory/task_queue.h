// Tasks one after another, in a thread of the queue's own or in that of whoever waits for them.
//
//   TaskQueue queue;
//   auto work = queue.add([&] { exchange.all_gather(out, in, bytes, deadline); });
//   ...                     // the queue's thread is at it
//   work->wait();           // if it has not begun yet, the waiting thread does it: no switch
//
// To wake the queue's thread for a task that is waited for right away costs more than many a task:
// When::kWaitedFor leaves it to who waits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

namespace am::runtime::shared_memory {

enum class When : uint8_t {
  kSoon,       // in the queue's thread, or that of who waits for it
  kWaitedFor,  // by who waits for it, or a later task; in the queue's thread when it is awake
};

class TaskQueue {
 public:
  TaskQueue();
  // Ends when the tasks have.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // `task` and what it holds on to is freed when it has run. What it throws, wait() throws.
  c10::intrusive_ptr<c10d::Work> add(std::function<void()> task) {
    return add(When::kSoon, std::move(task));
  }
  c10::intrusive_ptr<c10d::Work> add(When when, std::function<void()> task);

 private:
  class Queue;
  class Task;
  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace am::runtime::shared_memory
