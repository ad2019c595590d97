#include "am/runtime/world.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/runtime/fake_engine.h"
#include "am/runtime/store.h"

namespace am::runtime {

struct World::State {
  launch::RankEnvironment here;
  c10::intrusive_ptr<c10d::Store> store;
  WorldOptions options;
  Engines engines;
  std::shared_ptr<GroupContext> context = std::make_shared<GroupContext>();
  Group group;
  bool fake = false;  // true for World::fake: no other ranks exist, so new_group() does not wait

  std::mutex mutex;
  std::map<std::string, int64_t> names_given;
  std::vector<std::weak_ptr<Communicator>> communicators;
};

namespace {

std::vector<int64_t> first_ranks(int64_t size) {
  std::vector<int64_t> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

World World::single() {
  World world;
  world.state_ = std::make_shared<State>();
  world.state_->here.launcher = "local";
  world.state_->options.timeout = std::chrono::milliseconds(0);
  return world;
}

World World::fake(int64_t rank, int64_t size, c10::Device device) {
  World world = single();
  State& state = *world.state_;
  state.here.rank = rank;
  state.here.world_size = size;
  state.engines.cpu = fake_engine(device);
  state.store = c10::make_intrusive<c10d::HashStore>();
  state.fake = true;
  state.group = Group("world", rank);
  if (size > 1) state.group = world.new_group("world", first_ranks(size), {});
  return world;
}

World World::connect(const launch::RankEnvironment& here, const WorldOptions& options) {
  if (launch::process_environment()(launch::kDryRunVariable)) {
    return fake(here.rank, here.world_size, c10::Device(c10::kCPU));
  }
  auto store =
      here.world_size > 1 ? connect_store(here, options.timeout, options.waiting) : nullptr;
  return meet_in(here, std::move(store), options);
}

World World::meet_in(const launch::RankEnvironment& here, c10::intrusive_ptr<c10d::Store> store,
                     const WorldOptions& options) {
  return meet_in(here, std::move(store), options, make_engines(options.backend, here));
}

World World::meet_in(const launch::RankEnvironment& here, c10::intrusive_ptr<c10d::Store> store,
                     const WorldOptions& options, Engines engines) {
  World world;
  world.state_ = std::make_shared<State>();
  State& state = *world.state_;
  state.here = here;
  state.options = options;
  state.engines = std::move(engines);
  state.store = std::move(store);
  state.group = Group("world", here.rank);
  if (here.world_size > 1) {
    state.group = world.new_group("world", first_ranks(here.world_size), {options.timeout});
  }
  return world;
}

int64_t World::rank() const { return state_->here.rank; }
int64_t World::size() const { return state_->here.world_size; }
bool World::is_fake() const { return state_->fake; }
const launch::RankEnvironment& World::environment() const { return state_->here; }
std::chrono::milliseconds World::timeout() const { return state_->options.timeout; }
const std::string& World::backend() const { return state_->options.backend; }
const Group& World::group() const { return state_->group; }
Progress& World::progress() const { return state_->context->progress; }
const std::shared_ptr<GroupContext>& World::context() const { return state_->context; }
const c10::intrusive_ptr<c10d::Store>& World::store() const { return state_->store; }

c10::Device World::device() const {
  const auto& accelerator = state_->engines.accelerator;
  return accelerator ? accelerator->device() : c10::Device(c10::kCPU);
}

Group World::make_group(const std::string& name, std::vector<int64_t> ranks) const {
  if (size() > 1 && ranks == first_ranks(size())) return group().renamed(name);
  return new_group(name, std::move(ranks), {timeout()});
}

Group World::new_group(const std::string& name, std::vector<int64_t> ranks,
                       const GroupOptions& options, const std::string& backend) const {
  const auto self = std::find(ranks.begin(), ranks.end(), rank());
  AM_ASSERT(self != ranks.end(), "a rank makes only the groups it is in");
  if (ranks.size() == 1) return Group(name, rank());
  const Engines engines = backend.empty() ? state_->engines : make_engines(backend, state_->here);
  auto communicator = std::make_shared<Communicator>();
  communicator->index = self - ranks.begin();
  communicator->id =
      std::make_shared<CommunicatorId>(CommunicatorId{name, std::move(ranks), options.timeout});
  communicator->user_buffers = options.user_buffers;
  communicator->context = state_->context;
  const auto& members = communicator->id->ranks;
  const auto connect = [&](const std::shared_ptr<Engine>& engine) {
    auto store = c10::make_intrusive<c10d::PrefixStore>(cat("group/", name, "/", engine->name()),
                                                        state_->store);
    return engine->connect(std::move(store), *communicator->id, communicator->index, options);
  };
  if (!state_->fake) meet(*state_->store, name, rank(), members, options.timeout);
  try {
    if (engines.accelerator) {
      communicator->accelerator = connect(engines.accelerator);
      communicator->accelerator_engine = engines.accelerator;
      communicator->device = engines.accelerator->device();
    }
    if (engines.cpu) {
      communicator->cpu = connect(engines.cpu);
      communicator->device = engines.cpu->device();
    }
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kPeer,
                cat("rank ", rank(), ": cannot connect group ", name, " (", ranks_text(members),
                    "): ", first_line(error)),
                "a peer rank went away or did not arrive in time; look at its log");
  }
  // Gloo connects one pair of ranks after another. Without this barrier, a rank with all its
  // connections could use and close the group while another rank still connects; the other rank's
  // connection would then fail.
  if (!state_->fake) {
    meet(*state_->store, cat(name, " (connected)"), rank(), members, options.timeout);
  }
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->communicators, [](const auto& made) { return made.expired(); });
  state_->communicators.push_back(communicator);
  return Group(name, std::move(communicator));
}

std::string World::unique_name(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  return cat(name, "/", ++state_->names_given[name]);
}

void World::abort() const {
  const std::lock_guard lock(state_->mutex);
  for (const auto& made : state_->communicators) {
    if (auto communicator = made.lock()) Group("aborted", std::move(communicator)).abort();
  }
}

// Note [Flight recorder]: c10d has one flight recorder per process, and part of its recording for
// Gloo takes no lock. This is safe with one rank per process, but a process with several ranks in
// threads crashes. run_threads() therefore switches the recorder off: it sets the environment
// variable of the recorder's size to 0, unless the variable is set already. The recorder reads the
// variable at its first use.
void run_threads(int64_t size, const std::function<void(int64_t rank)>& body) {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);
  std::mutex mutex;
  // `heard_of`: the first error of kind kPeer, which is a consequence of another rank's failure;
  // `first`: the first other error.
  std::exception_ptr first, heard_of;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        std::exception_ptr& failure = error.kind() == ErrorKind::kPeer ? heard_of : first;
        if (!failure) failure = std::current_exception();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  if (heard_of) std::rethrow_exception(heard_of);
}

void run_ranks(int64_t size, const std::function<void(const World&)>& body,
               std::chrono::milliseconds timeout) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  run_threads(size, [&](int64_t rank) {
    launch::RankEnvironment here;
    here.rank = here.local_rank = rank;
    here.world_size = here.local_world_size = size;
    here.launcher = "local";
    body(World::meet_in(here, store, {.timeout = timeout}));
  });
}

}  // namespace am::runtime
