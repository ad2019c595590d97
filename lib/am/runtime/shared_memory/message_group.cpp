#include "am/runtime/shared_memory/message_group.h"

#include <utility>

namespace am::runtime::shared_memory {

MessageGroup::MessageGroup(std::unique_ptr<Channel> channel, std::chrono::milliseconds timeout)
    : Backend(static_cast<int>(channel->index()), static_cast<int>(channel->size())),
      mailbox_(std::make_shared<Mailbox>(std::move(channel), timeout)) {}

MessageGroup::~MessageGroup() { mailbox_->leave(); }

c10::intrusive_ptr<c10d::Work> MessageGroup::send(std::vector<at::Tensor>& tensors, int /*to*/,
                                                  int /*tag*/) {
  TORCH_CHECK(getRank() == 0 && tensors.size() == 1, "messages go from index 0, one at a time");
  return mailbox_->post(tensors[0]);
}

c10::intrusive_ptr<c10d::Work> MessageGroup::recv(std::vector<at::Tensor>& tensors, int /*from*/,
                                                  int /*tag*/) {
  TORCH_CHECK(getRank() == 1 && tensors.size() == 1, "messages arrive at index 1, one at a time");
  return mailbox_->post(tensors[0]);
}

void MessageGroup::abort() { mailbox_->leave(); }

}  // namespace am::runtime::shared_memory
