// The process group for messages between two ranks of one host (runtime/channel.h), through a
// mailbox, without connections. Index 0 sends and index 1 receives; no other operation is
// supported.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "am/runtime/shared_memory/mailbox.h"

namespace am::runtime::shared_memory {

class MessageGroup final : public c10d::Backend {
 public:
  MessageGroup(std::unique_ptr<Channel> channel, std::chrono::milliseconds timeout);
  ~MessageGroup() override;

  const std::string getBackendName() const override { return "shared memory"; }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  void abort() override;

 private:
  const std::shared_ptr<Mailbox> mailbox_;
};

}  // namespace am::runtime::shared_memory
