#include "am/runtime/gloo_engine.h"

#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/text.h"
#include "am/runtime/gloo_group.h"
#include "am/runtime/shared_memory/mailbox.h"
#include "am/runtime/shared_memory/shared_memory_group.h"

namespace am::runtime {

namespace {

using Device = std::shared_ptr<::gloo::transport::Device>;

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || starts_with(host, "127.");
}

// Returns this machine's address on the route to `host`: the local address of a datagram socket
// that is connected to `host`. Sends no data. Returns nothing if the name `host` cannot be resolved
// or no route leads to it.
std::optional<std::string> address_towards(const std::string& host) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &wanted, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = ::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own = {};
    socklen_t size = sizeof(own);
    char text[NI_MAXHOST];
    const bool known = ::connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
                       ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                       ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof(text),
                                     nullptr, 0, NI_NUMERICHOST) == 0;
    ::close(fd);
    if (known) return std::string(text);
  }
  return std::nullopt;
}

std::vector<Device> make_devices(const launch::RankEnvironment& here) {
  using c10d::ProcessGroupGloo;
  std::vector<Device> devices;
  if (const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
      interfaces != nullptr && *interfaces != '\0') {
    for (const std::string& name : split(interfaces, ',')) {
      try {
        devices.push_back(ProcessGroupGloo::createDeviceForInterface(std::string(trim(name))));
      } catch (const std::exception& error) {
        throw Error(ErrorKind::kRuntime, cat("GLOO_SOCKET_IFNAME: Gloo cannot use the interface \"",
                                             name, "\": ", first_line(error)));
      }
    }
    return devices;
  }
  const bool local = is_loopback(here.master_addr);
  const auto address =
      local ? std::optional<std::string>("127.0.0.1") : address_towards(here.master_addr);
  if (address) {
    devices.push_back(ProcessGroupGloo::createDeviceForHostname(*address));
  } else {
    devices.push_back(ProcessGroupGloo::createDefaultDevice());
  }
  return devices;
}

// Returns the number of cores in the calling thread's affinity mask; 1 if the mask is unknown.
int64_t usable_cores() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// The process group for messages between two ranks of one host (runtime/channel.h). Messages pass
// through shared memory (mailbox.h), without connections. Index 0 sends and index 1 receives; no
// other operation is supported.
class MessageGroup final : public c10d::Backend {
 public:
  MessageGroup(std::unique_ptr<shared_memory::Channel> channel, std::chrono::milliseconds timeout)
      : Backend(static_cast<int>(channel->index()), static_cast<int>(channel->size())),
        mailbox_(std::make_shared<shared_memory::Mailbox>(std::move(channel), timeout)) {}
  ~MessageGroup() override { mailbox_->leave(); }

  const std::string getBackendName() const override { return "shared memory"; }

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int /*to*/,
                                      int /*tag*/) override {
    TORCH_CHECK(getRank() == 0 && tensors.size() == 1, "messages go from index 0, one at a time");
    return mailbox_->post(tensors[0]);
  }

  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int /*from*/,
                                      int /*tag*/) override {
    TORCH_CHECK(getRank() == 1 && tensors.size() == 1, "messages arrive at index 1, one at a time");
    return mailbox_->post(tensors[0]);
  }

  void abort() override { mailbox_->leave(); }

 private:
  const std::shared_ptr<shared_memory::Mailbox> mailbox_;
};

class GlooEngine : public Engine {
 public:
  GlooEngine(std::vector<Device> devices, const launch::RankEnvironment& here)
      : devices_(std::move(devices)) {
    const char* wanted = std::getenv("AM_SHARED_MEMORY");
    channel_.wanted = wanted == nullptr || std::string_view(wanted) != "0";
    channel_.spin = usable_cores() >= here.local_world_size;
  }

  std::string name() const override { return "gloo"; }
  c10::Device device() const override { return {c10::kCPU}; }

  c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> store,
                                            const CommunicatorId& group, int64_t index,
                                            const GroupOptions& options) override {
    const auto rank = static_cast<int>(index);
    const auto size = static_cast<int>(group.ranks.size());
    auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
    gloo->devices = devices_;
    gloo->threads = 1;
    c10d::PrefixStore in_memory("memory", store);
    shared_memory::ChannelOptions wishes = channel_;
    wishes.ranks = group.ranks;
    if (auto channel = shared_memory::Channel::meet(in_memory, index, size, wishes)) {
      if (options.messages_only) {
        return c10::make_intrusive<MessageGroup>(std::move(channel), options.timeout);
      }
      return c10::make_intrusive<shared_memory::SharedMemoryGroup>(
          std::move(channel), std::move(store), rank, size, std::move(gloo));
    }
    return c10::make_intrusive<GlooGroup>(std::move(store), rank, size, std::move(gloo));
  }

 private:
  shared_memory::ChannelOptions channel_;
  // Gloo's network devices. All groups share the devices, and the threads and sockets of each
  // device.
  std::vector<Device> devices_;
};

}  // namespace

std::shared_ptr<Engine> make_gloo_engine(const launch::RankEnvironment& here) {
  return std::make_shared<GlooEngine>(make_devices(here), here);
}

}  // namespace am::runtime
