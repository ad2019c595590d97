#include "am/compat/distributed.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/launch/environment/torchrun.h"
#include "am/runtime/store.h"

namespace am::compat {

namespace {

// Makes the process ignore SIGINT while an instance exists. The destructor of the last instance
// restores the previous handler.
class SigintIgnored {
 public:
  SigintIgnored() {
    const std::lock_guard lock(mutex_);
    if (count_++ > 0) return;
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &previous_);
  }
  SigintIgnored(const SigintIgnored&) = delete;
  SigintIgnored& operator=(const SigintIgnored&) = delete;
  ~SigintIgnored() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) ::sigaction(SIGINT, &previous_, nullptr);
  }

 private:
  inline static std::mutex mutex_;
  inline static int count_ = 0;
  inline static struct sigaction previous_ = {};
};

// All existing Distributed objects. An exit handler calls leave() on them, because destructors do
// not run for leaked objects, or for objects on the stack of a thread that calls exit. The list is
// never destroyed, because exit handlers use it.
struct Living {
  std::mutex mutex;
  std::vector<Distributed*> all;
};

Living& living() {
  static Living* const all_jobs = [] {
    std::atexit([] {
      std::vector<Distributed*> left;
      {
        const std::lock_guard lock(living().mutex);
        left.swap(living().all);
      }
      for (Distributed* distributed : left) distributed->leave();
    });
    return new Living;
  }();
  return *all_jobs;
}

}  // namespace

Distributed::Distributed(Variables variables, Log log)
    : variables_(std::move(variables)), log_(std::move(log)) {
  const std::lock_guard lock(living().mutex);
  living().all.push_back(this);
}

Distributed::~Distributed() {
  leave();
  const std::lock_guard lock(living().mutex);
  std::erase(living().all, this);
}

void Distributed::log(LogLevel level, const std::string& message) const {
  if (log_) log_(level, message);
}

const runtime::World& Distributed::world() const {
  AM_ASSERT(world_, "no job was joined");
  return *world_;
}

std::optional<launch::RankEnvironment> Distributed::detect() const {
  Diagnostics found;
  auto here = launch::detect_environment(variables_.lookup(), found);
  if (!found.ok()) {
    const Diagnostic& first = found.items().front();
    throw Error(ErrorKind::kUsage, first.message, first.help);
  }
  return here;
}

void Distributed::join(const runtime::WorldOptions& options) {
  const auto here = detect();
  if (here) export_variables(*here);
  join(here.value_or(launch::RankEnvironment{.launcher = "local"}), options);
}

void Distributed::join(const launch::RankEnvironment& here, const runtime::WorldOptions& options) {
  c10::intrusive_ptr<c10d::Store> store;
  if (here.world_size > 1) {
    const auto waiting = [&](const std::string& reason) {
      log(LogLevel::kWarning, runtime::waiting_text(here, reason));
    };
    if (!store_) {
      store_ = runtime::connect_store(here, options.timeout,
                                      options.waiting ? options.waiting : waiting);
    }
    store_->setTimeout(options.timeout);
    // Each later join has its own key prefix, so that it does not find the keys of an earlier join.
    store = store_;
    if (joins_ > 0) store = c10::make_intrusive<c10d::PrefixStore>(cat("join/", joins_), store_);
    ++joins_;
  }
  world_ = runtime::World::meet_in(here, std::move(store), options);
}

// Sets torchrun's variables for a rank that another launcher (Slurm, MPI, Flux) started. The
// functions with names from OLMo-core and AutoModel read only torchrun's variables.
void Distributed::export_variables(const launch::RankEnvironment& here) {
  if (here.launcher == "torchrun" || here.launcher == "local") return;
  launch::TorchrunOptions options;
  options.omp_num_threads_given = true;  // leaves OMP_NUM_THREADS as the scheduler has set it
  for (const auto& [name, value] : launch::torchrun_variables(here, options)) {
    set_variable(variables_, name, value);
  }
}

void Distributed::join(runtime::World world) { world_ = std::move(world); }

void Distributed::leave() {
  if (!world_ && hooks_.empty()) return;
  const SigintIgnored quiet;
  while (!hooks_.empty()) {
    const auto [what, hook] = std::move(hooks_.back());
    hooks_.pop_back();
    // A failed hook must not keep the connections open.
    try {
      hook();
    } catch (const std::exception& error) {
      log(LogLevel::kWarning, cat(what, " failed: ", first_line(error)));
    } catch (...) {
      log(LogLevel::kWarning, cat(what, " failed: an exception that is not a std::exception"));
    }
  }
  world_.reset();
}

void Distributed::before_leaving(std::string what, std::function<void()> hook) {
  hooks_.emplace_back(std::move(what), std::move(hook));
}

int64_t integer_variable(const Variables& variables, const std::string& name, int64_t otherwise) {
  const auto value = variables.get(name);
  if (!value || trim(*value).empty()) return otherwise;
  const auto number = parse_integer(trim(*value));
  if (!number) throw Error(ErrorKind::kUsage, cat(name, "=", *value, " is not a whole number"));
  return *number;
}

const runtime::Group& group_or_world(const Distributed& distributed, const runtime::Group* group) {
  return group != nullptr ? *group : distributed.world().group();
}

}  // namespace am::compat
