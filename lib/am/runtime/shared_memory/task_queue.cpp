#include "am/runtime/shared_memory/task_queue.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

namespace am::runtime::shared_memory {

class TaskQueue::Task final : public c10d::Work {
 public:
  Task(std::shared_ptr<Queue> queue, std::function<void()> body)
      : queue_(std::move(queue)), body_(std::move(body)) {}

  bool wait(std::chrono::milliseconds timeout) override;

  void run() {
    std::exception_ptr failure;
    try {
      body_();
    } catch (...) {
      failure = std::current_exception();
    }
    body_ = nullptr;
    finish(failure);
  }

 private:
  const std::shared_ptr<Queue> queue_;
  std::function<void()> body_;
};

class TaskQueue::Queue {
 public:
  void add(c10::intrusive_ptr<Task> task, When when) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (when == When::kSoon) changed_.notify_all();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }

  // Runs the queue's tasks until `task` is completed; waits while another thread runs a task. If
  // `task` is null, continues until the queue is closed and empty.
  void run_until(Task* task) {
    std::unique_lock lock(mutex_);
    while (true) {
      if (task != nullptr ? task->isCompleted() : closing_ && tasks_.empty() && !busy_) return;
      if (busy_ || tasks_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto next = std::move(tasks_.front());
      tasks_.pop_front();
      busy_ = true;
      lock.unlock();
      next->run();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<c10::intrusive_ptr<Task>> tasks_;
  bool busy_ = false;
  bool closing_ = false;
};

bool TaskQueue::Task::wait(std::chrono::milliseconds /*timeout*/) {
  queue_->run_until(this);
  const std::lock_guard lock(mutex_);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

TaskQueue::TaskQueue() : queue_(std::make_shared<Queue>()) {
  thread_ = std::thread([queue = queue_] { queue->run_until(nullptr); });
}

TaskQueue::~TaskQueue() {
  queue_->close();
  thread_.join();
}

c10::intrusive_ptr<c10d::Work> TaskQueue::add(When when, std::function<void()> task) {
  auto work = c10::make_intrusive<Task>(queue_, std::move(task));
  queue_->add(work, when);
  return work;
}

}  // namespace am::runtime::shared_memory
