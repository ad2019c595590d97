#include "am/inspect/attached.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "am/base/error.h"
#include "am/base/host.h"
#include "am/base/signals_blocked.h"
#include "am/base/text.h"
#include "am/inspect/messages.h"
#include "am/launch/supervise/process_state.h"
#include "am/term/printable.h"

namespace am::inspect {

namespace {

using namespace std::chrono_literals;

constexpr auto kGreeting = 5s;
constexpr auto kLook = 100ms;
constexpr auto kRenewal = 10s;
// Time to wait for an answer before a notice reports that the job has not answered yet.
constexpr auto kSilence = 2s;
constexpr auto kLongSilence = 30s;  // applies to commands that wait for steps of the job

Json hello_of(const AttachOptions& options) {
  SessionOptions session = options.session;
  std::error_code unknown;  // the current folder may have been deleted
  session.folder = std::filesystem::current_path(unknown);
  return {{"name", cat("am-repl ", AM_VERSION)},
          {"host", host_name()},
          {"write", options.write},
          {"session", session_request(session)}};
}

}  // namespace

Json session_request(const SessionOptions& options) {
  return {{"color", options.style.color},     {"unicode", options.style.unicode},
          {"width", options.style.width},     {"window", options.style.window},
          {"height", options.style.height},   {"for_programs", options.for_programs},
          {"force", options.force},           {"tokenizer", options.tokenizer},
          {"folder", options.folder.string()}};
}

SessionOptions requested_session(const Json& json) {
  SessionOptions options;
  const auto flag = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_boolean() && found->get<bool>();
  };
  options.style.color = flag("color");
  options.style.unicode = flag("unicode");
  options.style.window = flag("window");
  options.for_programs = flag("for_programs");
  options.force = flag("force");
  const auto size = [&](const char* name, int least, int& value) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_integer()) return;
    const auto wanted = found->get<int64_t>();
    if (wanted >= least && wanted <= 10000) value = static_cast<int>(wanted);
  };
  size("width", 20, options.style.width);
  size("height", 1, options.style.height);
  const auto text = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  options.folder = text("folder");
  options.tokenizer = text("tokenizer");
  if (!options.tokenizer.empty() && options.tokenizer != "bytes") {
    options.tokenizer = (options.folder / options.tokenizer).string();
  }
  return options;
}

AttachedJob::AttachedJob(const control::JobAddress& address, const std::filesystem::path& run,
                         const AttachOptions& options)
    : wait_(options.wait),
      style_(options.session.style),
      run_(run),
      client_(address, hello_of(options), kGreeting) {
  const Json& welcome = client_.welcome();
  const auto texts = [&](const char* name) {
    return welcome.value(name, std::vector<std::string>());
  };
  try {
    facts_.title = term::echo(welcome.value("title", run_.filename().string()));
    facts_.parameters = texts("parameters");
    facts_.modules = texts("modules");
    facts_.note = welcome.value("note", "");
  } catch (const JsonError&) {
    throw control::not_a_job();
  }
  const SignalsBlocked blocked;
  keeper_ = std::thread([this] { keep(); });
}

AttachedJob::~AttachedJob() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  keeper_.join();
}

void AttachedJob::keep() {
  auto renewed = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [&] { return leaving_; })) {
    if (!busy_) tell_what_came();
    pollfd wait{client_.fd(), POLLRDHUP, 0};
    const bool ended = ::poll(&wait, 1, 0) > 0;
    if (ended && !busy_) {
      if (wait_.notice) wait_.notice(cat("the job of ", run_.string(), " has ended"));
      return;
    }
    if (std::chrono::steady_clock::now() - renewed < kRenewal) continue;
    renewed = std::chrono::steady_clock::now();
    lock.unlock();
    try {
      client_.send({{"renew", true}});
    } catch (const Error&) {
      // The error is ignored, because the next poll() detects that the job has ended.
    }
    lock.lock();
  }
}

void AttachedJob::tell(const Json& event) {
  const std::string kind = control::text_in(event, "event");
  const std::string text = term::echo_lines(control::text_in(event, "text"));
  if (kind == "ended") end_ = text;
  if (kind == "dropped" && wait_.notice) {
    const auto count = event.find("count");
    const bool counted = count != event.end() && count->is_number_integer();
    wait_.notice(
        cat("note: ", counted ? count->get<int64_t>() : 0, " messages from the job were dropped"));
  } else if (!text.empty() && kind != "ended" && wait_.notice) {
    wait_.notice(text);
  }
}

void AttachedJob::tell_what_came() {
  try {
    while (const auto message = client_.receive(0ms)) tell(*message);
  } catch (const Error&) {
    // The connection is closed, so there are no more messages. The callers detect the closed
    // connection themselves.
  }
}

void AttachedJob::lost() {
  gone_ = true;
  tell_what_came();
  throw SessionLost(
      cat(end_.empty() ? cat("the job of ", run_.string(), " ended or is unreachable; see its logs")
                       : end_,
          "\n"));
}

Json AttachedJob::wait_for(int64_t id, bool lasts) {
  auto heard = std::chrono::steady_clock::now();
  bool asked = false;
  bool said = false;
  for (;;) {
    if (auto message = client_.receive(kLook)) {
      if (!message->contains("id")) {
        tell(*message);
        heard = std::chrono::steady_clock::now();
      } else if (message->at("id") == id) {
        return *std::move(message);
      }
    }
    if (wait_.interrupted && wait_.interrupted()) {
      if (wait_.forget_interrupt) wait_.forget_interrupt();
      if (asked) {
        gone_ = true;
        throw SessionLost("the session is over: the job has not answered\n");
      }
      asked = true;
      client_.send({{"cancel", id}});
    }
    if (!said && std::chrono::steady_clock::now() - heard > (lasts ? kLongSilence : kSilence)) {
      said = true;
      if (wait_.notice) {
        wait_.notice(cat(lasts ? "the job has not answered for half a minute"
                               : "the job has not answered for two seconds: it runs most commands "
                                 "between two steps",
                         "; `status` and `ranks` in another am-repl show what the job is doing; "
                         "Ctrl-C cancels the command"));
      }
    }
  }
}

Outcome AttachedJob::run(const std::string& input) {
  if (auto outcome = execute_without_session(input, style_)) return *std::move(outcome);
  if (gone_) throw SessionLost("the session is over: the job has ended or is unreachable\n");
  struct Busy {
    explicit Busy(AttachedJob& owner) : job(owner) { set(true); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    ~Busy() { set(false); }
    void set(bool busy) const {
      const std::lock_guard lock(job.mutex_);
      job.busy_ = busy;
    }
    AttachedJob& job;
  };
  const Busy busy(*this);
  const Command* command = command_of(input);
  const auto* in_job = command == nullptr ? nullptr : command->as<InJob>();
  try {
    const Json message = wait_for(
        client_.send({{"input", input}, {"width", style_.width}, {"height", style_.height}}),
        in_job != nullptr && in_job->lasts);
    const Json& reply = message.at("reply");
    if (reply.contains("title")) facts_.title = term::echo(reply.at("title").get<std::string>());
    return unpack(reply);
  } catch (const JsonError&) {
    throw control::not_a_job();
  } catch (const control::ConnectionLost&) {
    lost();
  }
}

}  // namespace am::inspect
