// Tasks one after another, in a thread of the queue's own or in that of whoever waits for them.
//
//   TaskQueue queue;
//   auto work = queue.add([&] { exchange.all_gather(out, in, bytes, deadline); });
//   ...                     // the queue's thread is at it
//   work->wait();           // if it has not begun yet, the waiting thread does it: no switch
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace am::runtime::shared_memory {

class TaskQueue {
 public:
  TaskQueue();
  // Ends when the tasks have.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // `task` and what it holds on to is freed when it has run. What it throws, wait() throws.
  c10::intrusive_ptr<c10d::Work> add(std::function<void()> task);

 private:
  class Queue;
  class Task;
  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace am::runtime::shared_memory
