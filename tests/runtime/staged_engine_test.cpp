// Tests collectives of device tensors through host memory, on stand-in devices
// (support/stand_in_device.h): the results equal those of host collectives, and the copies before
// and after a collective are synchronised.
#include "am/runtime/staged_engine.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <functional>
#include <utility>

#include "am/base/error.h"
#include "am/runtime/collective_error.h"
#include "am/runtime/device_mesh.h"
#include "support/over_gloo.h"
#include "support/rank_check.h"
#include "support/stand_in_device.h"

namespace am::runtime {

namespace {

using Tensors = std::vector<at::Tensor>;

// Collective whose result is available only after wait().
class Late final : public c10d::Work {
 public:
  explicit Late(std::function<void()> arrive) : arrive_(std::move(arrive)) {}
  bool isCompleted() override { return false; }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    arrive_();
    return true;
  }

 private:
  std::function<void()> arrive_;
};

// Host group that stores a copy of each collective's input in `sent`, and fills the output with
// `result`, which then increases by 1.
class LateGroup final : public c10d::Backend {
 public:
  LateGroup() : Backend(0, 2) {}
  const std::string getBackendName() const override { return "late"; }
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& /*options*/) override {
    return begin(tensors[0], tensors[0]);
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(
      at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions& /*options*/) override {
    return begin(out, in);
  }
  c10::intrusive_ptr<c10d::Work> recv(Tensors& tensors, int /*from*/, int /*tag*/) override {
    return begin(tensors[0], {});
  }

  at::Tensor sent;
  float result = 1;

 private:
  c10::intrusive_ptr<c10d::Work> begin(const at::Tensor& out, const at::Tensor& in) {
    if (in.defined()) sent = in.clone();
    return c10::make_intrusive<Late>([out, value = result++] { out.fill_(value); });
  }
};

class LateEngine final : public Engine {
 public:
  std::string name() const override { return "late"; }
  c10::Device device() const override { return c10::Device(c10::kCPU); }
  c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> /*store*/,
                                            const CommunicatorId& /*group*/, int64_t /*index*/,
                                            const GroupOptions& /*options*/) override {
    return group;
  }

  c10::intrusive_ptr<LateGroup> group = c10::make_intrusive<LateGroup>();
};

struct LateExchange {
  c10::Device device = test::stand_in_device();
  std::shared_ptr<LateEngine> host = std::make_shared<LateEngine>();
  c10::intrusive_ptr<c10d::Backend> group =
      make_staged_engine(host, device)->connect({}, {"late", {0, 1}}, 0, {});

  at::Tensor on_device(float value) const { return at::full({4}, value, device); }
};

at::Tensor four(float value) { return at::full({4}, value); }

// Returns the results of each kind of collective, as host tensors. The inputs are on the rank's
// device, and their values depend on the rank.
Tensors staged_results(const World& world) {
  const Group& group = world.group();
  const int64_t size = group.size();
  const auto options = at::TensorOptions(world.device());
  const at::Tensor mine =
      (at::arange(12, at::kFloat).add(100 * world.rank()) / 7.0).view({6, 2}).to(world.device());
  Tensors found;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
    at::Tensor sum = mine.to(dtype).clone();
    group.all_reduce(sum);
    at::Tensor most = mine.to(dtype).clone();
    group.all_reduce_async(most, ReduceOp::kMax).wait();
    found.insert(found.end(), {sum, most});
  }
  at::Tensor gathered = at::empty({size * 6, 2}, options);
  group.all_gather(gathered, mine);
  at::Tensor own = at::empty({6, 2}, options);
  group.reduce_scatter_async(own, gathered * mine.repeat({size, 1})).wait();
  at::Tensor word = mine.clone();
  group.broadcast(word, size - 1);
  at::Tensor turned = at::empty_like(mine);
  group.rotate(turned, mine);
  // Each rank sends i + 1 rows to index i.
  std::vector<int64_t> sent, received;
  for (int64_t i = 0; i < size; ++i) {
    sent.push_back(i + 1);
    received.push_back(world.rank() + 1);
  }
  const at::Tensor leaving = mine.narrow(0, 0, size * (size + 1) / 2);
  at::Tensor exchanged = at::empty({size * (world.rank() + 1), 2}, options);
  group.all_to_all(exchanged, leaving, received, sent);
  group.barrier();
  found.insert(found.end(), {gathered, own, word, turned, exchanged});
  for (at::Tensor& tensor : found) tensor = tensor.cpu();
  return found;
}

}  // namespace

TEST_CASE("collectives of a device's tensors are the host's, to the bit", "[staged]") {
  const OverGloo over_gloo(GENERATE(false, true));
  constexpr int64_t kRanks = 3;
  std::vector<Tensors> wanted(kRanks);
  run_ranks(kRanks, [&](const World& world) {
    wanted[static_cast<size_t>(world.rank())] = staged_results(world);
  });
  test::run_stand_ins(kRanks, [&](const World& world) {
    RANK_CHECK(world.device() == test::stand_in_device(world.rank()));
    const Tensors found = staged_results(world);
    const Tensors& on_host = wanted[static_cast<size_t>(world.rank())];
    RANK_CHECK(found.size() == on_host.size());
    for (size_t i = 0; i < found.size(); ++i) RANK_CHECK(at::equal(found[i], on_host[i]));
    const auto texts = world.group().all_gather_text(std::to_string(world.rank()));
    RANK_CHECK((texts == std::vector<std::string>{"0", "1", "2"}));
    RANK_CHECK(world.group().broadcast_text(world.rank() == 0 ? "word" : "") == "word");
  });
}

TEST_CASE("two ranks receive before they send", "[staged]") {
  const OverGloo over_gloo(GENERATE(false, true));
  test::run_stand_ins(2, [](const World& world) {
    const DeviceMesh mesh(world, mesh::MeshLayout({.pp = 2}));
    const Channels channels = mesh.channels("pp", {{0, 1}, {1, 0}});
    const int64_t other = 1 - world.rank();
    at::Tensor arriving = at::zeros({1000}, world.device());
    const at::Tensor sent = at::full({1000}, world.rank() + 1.0, world.device());
    Pending received = channels.at({other, world.rank()}).receive(arriving);
    Pending leaving = channels.at({world.rank(), other}).send(sent);
    received.wait();
    leaving.wait();
    RANK_CHECK(at::equal(arriving.cpu(), at::full({1000}, other + 1.0)));
  });
}

TEST_CASE("what is sent is what the device's stream has made by then", "[staged]") {
  const LateExchange exchange;
  const at::Tensor source = four(3);
  Tensors tensors = {exchange.on_device(0)};
  tensors[0].copy_(source, /*non_blocking=*/true);
  exchange.group->allreduce(tensors, {});
  CHECK(at::equal(exchange.host->group->sent, four(3)));
  at::Tensor out = at::zeros({2, 4}, exchange.device);
  tensors[0].copy_(source.fill_(5), /*non_blocking=*/true);
  exchange.group->_allgather_base(out, tensors[0], {});
  CHECK(at::equal(exchange.host->group->sent, four(5)));
}

TEST_CASE("a result is copied to the device when the collective is over", "[staged]") {
  const LateExchange exchange;
  Tensors tensors = {exchange.on_device(9)};
  const auto work = exchange.group->allreduce(tensors, {});
  CHECK(at::equal(tensors[0].cpu(), four(9)));
  work->wait();
  CHECK(at::equal(tensors[0].cpu(), four(1)));
  tensors[0].fill_(8);
  work->wait();
  CHECK(at::equal(tensors[0].cpu(), four(8)));
}

TEST_CASE("memory of a result that is still to be copied is not another's", "[staged]") {
  const LateExchange exchange;
  Tensors results;
  for (int i = 0; i < 3; ++i) {
    Tensors arriving = {exchange.on_device(0)};
    exchange.group->recv(arriving, 1, 0)->wait();
    results.push_back(arriving[0]);
  }
  for (int i = 0; i < 3; ++i) {
    CHECK(at::equal(results[static_cast<size_t>(i)].cpu(), four(static_cast<float>(i + 1))));
  }
}

TEST_CASE("autograd does not see what a collective writes", "[staged]") {
  const LateExchange exchange;
  const at::Tensor leaf = exchange.on_device(1).requires_grad_(true);
  const at::Tensor kept = leaf * leaf;  // the graph saves `leaf` for backward
  Tensors tensors = {leaf};
  exchange.group->allreduce(tensors, {})->wait();
  kept.sum().backward();
  CHECK(at::equal(leaf.grad().cpu(), four(2)));
}

TEST_CASE("errors of staged collectives are those of the host's", "[staged]") {
  using Catch::Contains;
  const auto fails = [](const std::function<void(const World&)>& body, const auto& matcher) {
    try {
      test::run_stand_ins(2, body, std::chrono::seconds(1));
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK_THAT(error.what(), matcher);
      return error.kind();
    }
    return ErrorKind::kPlan;
  };
  const auto peer_stays_away = [](const World& world) {
    at::Tensor sum = at::ones({4}, world.device());
    if (world.rank() == 0) world.group().all_reduce(sum);
  };
  CHECK(fails(peer_stays_away, Contains("all_reduce world")) == ErrorKind::kPeer);
  const auto host_tensor = [](const World& world) {
    at::Tensor sum = at::ones({4});
    world.group().all_reduce(sum);
  };
  CHECK(fails(host_tensor, Contains("cannot communicate cpu tensors")) == ErrorKind::kRuntime);
  const auto quarter = [](const World& world) {
    at::Tensor sum = at::empty({4}, at::TensorOptions(at::kFloat8_e4m3fn).device(world.device()));
    world.group().all_reduce(sum);
  };
  CHECK(fails(quarter, Contains("all_reduce world")) == ErrorKind::kUsage);
  const auto aborted = [](const World& world) {
    at::Tensor sum = at::ones({4}, world.device());
    if (world.rank() == 0) {
      Pending pending = world.group().all_reduce_async(sum);
      world.abort();
      pending.wait();
    }
  };
  CHECK(fails(aborted, Contains("all_reduce world")) == ErrorKind::kPeer);
}

TEST_CASE("an accelerator's engine stands beside a host's of the same name", "[staged]") {
  const auto engine = make_staged_engine(std::make_shared<LateEngine>(), test::stand_in_device());
  CHECK(engine->name() != "late");
  CHECK(engine->name().ends_with(":late"));
}

}  // namespace am::runtime
