// Runs tasks one after another, in the queue's thread or in the thread that waits for them.
//
//   TaskQueue queue;
//   auto work = queue.add([&] { exchange.all_gather(out, in, bytes, deadline); });
//   ...                     // the queue's thread may run the task
//   work->wait();           // runs the task in this thread if it has not begun: no thread switch
//
// If a thread waits for a task immediately, waking the queue's thread often costs more than the
// task itself: When::kWaitedFor leaves the task to the waiting thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

namespace am::runtime::shared_memory {

enum class When : uint8_t {
  // The queue's thread runs the task, or a thread that waits for this or a later task.
  kSoon,
  // A thread that waits for this or a later task runs the task. The queue's thread is not woken for
  // the task. If the queue's thread happens to be awake, that thread may run the task too.
  kWaitedFor,
};

class TaskQueue {
 public:
  TaskQueue();
  // Waits until all tasks have finished.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // Adds a task. The function and its captures are freed when the task has run. wait() on the
  // returned work rethrows an exception that the task threw.
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
