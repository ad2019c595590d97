#include "am/runtime/process_group_engine.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::runtime {

namespace {

class ProcessGroupEngine final : public Engine {
 public:
  ProcessGroupEngine(c10::intrusive_ptr<c10d::Backend> backend, c10::Device device)
      : backend_(std::move(backend)), device_(device) {}

  std::string name() const override { return "program"; }
  c10::Device device() const override { return device_; }

  c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> /*store*/,
                                            const CommunicatorId& group, int64_t index,
                                            const GroupOptions& /*options*/) override {
    AM_ASSERT(static_cast<int64_t>(group.ranks.size()) == backend_->getSize() &&
                  index == backend_->getRank(),
              "the process group of a program has all its ranks");
    return backend_;
  }

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
  c10::Device device_;
};

std::shared_ptr<Engine> engine_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                  c10::Device device) {
  try {
    return std::make_shared<ProcessGroupEngine>(group->getBackend(device.type()), device);
  } catch (const c10::Error&) {
    return nullptr;  // the group has no backend for this kind of device
  }
}

}  // namespace

Engines engines_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group, c10::Device device) {
  Engines engines;
  if (!group) {
    if (!device.is_cpu())
      engines.accelerator = std::make_shared<ProcessGroupEngine>(nullptr, device);
    return engines;
  }
  engines.cpu = engine_of(group, c10::Device(c10::kCPU));
  if (!device.is_cpu()) engines.accelerator = engine_of(group, device);
  if (!engines.cpu && !engines.accelerator) {
    throw Error(ErrorKind::kUsage, cat("the process group ", group->getGroupName(),
                                       " has no backend for host or ", device.str(), " tensors"));
  }
  return engines;
}

}  // namespace am::runtime
