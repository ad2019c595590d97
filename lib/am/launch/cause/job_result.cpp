#include "am/launch/cause/job_result.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <string_view>

#include "am/base/old_glibc.h"
#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::launch {
namespace {

// Appends the label and the text. All lines of the text begin in the column after the label.
void append_indented(std::string& out, std::string_view label, std::string_view text) {
  const std::vector<std::string> lines = split(trim(text), '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    out += cat("  ", i == 0 ? std::string(label) : std::string(label.size(), ' '), lines[i], "\n");
  }
}

std::string at_step(const RankError& error) {
  return error.step ? cat(" at step ", *error.step) : std::string();
}

void append_tail(std::string& out, const RankExit& rank) {
  if (rank.tail.empty()) {
    out += "  there is no output to show\n";
    return;
  }
  out += "  the last lines of its output:\n";
  for (const std::string& line : rank.tail) out += cat("    | ", line, "\n");
}

void append_log(std::string& out, const JobResult& result, const RankExit& rank) {
  if (rank.log.empty()) return;
  out += cat("  log: ", rank.log.string());
  if (rank.node != result.node_rank) out += cat(" (on node ", rank.node, ")");
  out += "\n";
}

// Returns the common reasons for a death by SIGKILL or SIGBUS. Returns an empty text if the rank
// ended differently or reported its error.
std::string_view hint_of(const RankExit& end) {
  if (end.error) return {};
  switch (end.signal) {
    case SIGKILL:
      return "the signal may come from the kernel, when memory runs out (see dmesg, or "
             "memory.events of the cgroup), from a scheduler or from a user";
    case SIGBUS:
      return "a mapped file of data or weights became shorter while the job ran, or its disk "
             "failed";
    default:
      return {};
  }
}

// Appends the ranks that exited with status 0 before the failed rank ended, and the time between
// the last of these exits and the failed rank's end. `end`: how the failed rank ended.
void append_early_ends(std::string& out, const JobResult& result, const RankExit& end) {
  std::vector<int64_t> early;
  double last = 0.0;
  for (const RankExit& rank : result.ranks) {
    if (!rank.ok() || rank.time <= 0.0 || rank.time > end.time) continue;
    early.push_back(rank.rank);
    last = std::max(last, rank.time);
  }
  if (early.empty()) return;
  out += cat("  ", ranks_text(early), " had ended with exit status 0, ",
             format_duration(end.time - last), " earlier\n");
}

// Describes a rank that caused the failure without failing itself: the rank was suspended or exited
// with status 0.
void append_idle(std::string& out, const JobResult& result) {
  const FirstCause& cause = *result.cause;
  const RankExit& end = result.ranks[*cause.end];
  const std::string name = cat("rank ", cause.rank, " on node ", cause.node);
  out = end.suspended ? cat(name, " was suspended, by SIGSTOP, a terminal or a debugger\n")
                      : cat(name, " left early: exit status 0, while the others went on\n");
  append_log(out, result, end);
  append_tail(out, end);
}

void append_death(std::string& out, const JobResult& result) {
  const FirstCause& cause = *result.cause;
  const RankExit& end = result.ranks[*cause.end];
  if (end.suspended || end.ok()) return append_idle(out, result);
  out = cat("rank ", cause.rank, " on node ", cause.node, " failed",
            end.error ? at_step(*end.error) : "", ": ", end_text(end), "\n");
  if (end.error) {
    append_indented(out, "error: ", end.error->message);
    if (!end.error->hint.empty()) append_indented(out, "help: ", end.error->hint);
    if (!end.error->last_collective.empty()) {
      out += cat("  last collective: ", end.error->last_collective, "\n");
    }
  }
  if (end.last_word) {
    out += cat("  last state, ", format_duration(std::max(0.0, end.time - end.last_word->time)),
               " before its end: ", end.last_word->whereabouts, "\n");
  }
  if (!hint_of(end).empty()) out += cat("  help: ", hint_of(end), "\n");
  append_early_ends(out, result, end);
  append_log(out, result, end);
  if (!end.error) append_tail(out, end);
}

// Describes what the hanging rank did instead of joining the collective, if known. `end`: how the
// hanging rank ended.
void append_whereabouts(std::string& out, const RankExit& end) {
  if (end.suspended) out += "  it was suspended, by SIGSTOP, a terminal or a debugger\n";
  // A rank that the launcher stopped wrote its report after the launcher's signal, so the report
  // does not show what the rank did before.
  if (end.stopped) return;
  if (end.error && !end.error->last_collective.empty()) {
    out += cat("  it waited in another collective: ", end.error->last_collective, "\n");
  } else if (end.ok()) {
    out += "  it had ended: exit status 0\n";
  }
}

void append_hang(std::string& out, const JobResult& result) {
  const FirstCause& cause = *result.cause;
  const RankExit& witness = result.ranks[*cause.witness];
  const RankError& error = *witness.error;
  out = cat("rank ", cause.rank, " on node ", cause.node, " hangs", at_step(error),
            ": it did not arrive at ",
            error.last_collective.empty() ? "a collective" : error.last_collective, "\n");
  std::vector<int64_t> others;
  for (const int64_t rank : error.missing) {
    if (rank != cause.rank) others.push_back(rank);
  }
  if (!others.empty()) out += cat("  ", ranks_text(others), " did not arrive there either\n");
  append_indented(out, cat("rank ", witness.rank, " waited for it: "), error.message);
  if (!error.hint.empty()) append_indented(out, "help: ", error.hint);
  if (!cause.end) return;
  const RankExit& end = result.ranks[*cause.end];
  append_whereabouts(out, end);
  append_log(out, result, end);
  append_tail(out, end);
}

std::string_view manner(const RankExit& rank) {
  if (!rank.stopped) return "also failed";
  // A signal that the launcher does not send may have killed the rank before the stop, or because
  // of the stop.
  const bool by_launcher = rank.signal == 0 || rank.signal == SIGTERM || rank.signal == SIGKILL;
  return by_launcher ? "stopped by the launcher" : "died while the launcher stopped it";
}

// Appends one line for each way in which ranks other than the cause ended, except exit status 0.
// Then appends one line for each last collective, each position of an interpreter, each silent node
// and each failed launcher.
void append_others(std::string& out, const JobResult& result) {
  std::map<std::string, std::vector<int64_t>> ends;
  std::map<std::string, std::vector<int64_t>> collectives;
  std::map<std::string, std::vector<int64_t>> positions;
  for (size_t i = 0; i < result.ranks.size(); ++i) {
    const RankExit& rank = result.ranks[i];
    if ((result.cause && i == result.cause->end) || rank.ok()) continue;
    ends[cat(manner(rank), ": ", end_text(rank))].push_back(rank.rank);
    if (rank.error && !rank.error->last_collective.empty()) {
      collectives[rank.error->last_collective].push_back(rank.rank);
    }
    if (!rank.position.empty()) positions[rank.position].push_back(rank.rank);
  }
  std::string lines;
  for (const auto& [end, ranks] : ends) lines += cat("  ", ranks_text(ranks), " ", end, "\n");
  for (const auto& [name, ranks] : collectives) {
    lines += cat("  ", ranks_text(ranks), " last collective: ", name, "\n");
  }
  for (const auto& [position, ranks] : positions) {
    lines += cat("  ", ranks_text(ranks), ranks.size() == 1 ? " was" : " were", " in ", position,
                 "; the whole stack is in the log\n");
  }
  for (const int64_t node : result.silent_nodes) {
    lines += cat("  node ", node, " did not answer: its launcher or its machine is gone\n");
  }
  for (const auto& [node, error] : result.failed_launchers) {
    lines += cat("  the launcher of node ", node, " gave up: ", error.message, "\n");
  }
  // If the text above names no rank or node as the cause, the heading is "the ranks", because "the
  // others" would refer to nothing.
  const bool nobody_named = !result.cause && result.silent_nodes.empty() &&
                            result.failed_launchers.empty() && result.store_error.empty();
  if (!lines.empty()) out += cat(nobody_named ? "the ranks:\n" : "the others:\n", lines);
}

// Returns whether the rank that counts as the cause only reported a connection that a peer closed.
bool only_lost_a_peer(const JobResult& result) {
  if (!result.cause || result.cause->witness) return false;
  const auto& error = result.ranks[*result.cause->end].error;
  return error && error->kind == kPeerError;
}

bool has_own_rank(const JobResult& result) {
  return std::any_of(result.ranks.begin(), result.ranks.end(),
                     [&](const RankExit& rank) { return rank.node == result.node_rank; });
}

bool own_ranks_ended_well(const JobResult& result) {
  return has_own_rank(result) &&
         std::all_of(result.ranks.begin(), result.ranks.end(), [&](const RankExit& rank) {
           return rank.node != result.node_rank || rank.ok();
         });
}

// Returns whether a node's launcher became silent although the user neither killed nor stopped the
// job.
bool lost_machine(const JobResult& result) {
  return !result.silent_nodes.empty() && !result.killed_by_user && !result.ended_by_user;
}

std::string gone_text(const JobResult& result) {
  return cat("node ", result.silent_nodes.front(),
             " has given no sign of life: its launcher or its machine is gone");
}

void append_no_cause(std::string& out, const JobResult& result) {
  const bool well_here = own_ranks_ended_well(result);
  if (!result.failed_launchers.empty()) {
    const auto& [node, error] = result.failed_launchers.front();
    out = cat("the launcher of node ", node, " gave up\n");
    append_indented(out, "error: ", error.message);
    if (!error.hint.empty()) append_indented(out, "help: ", error.hint);
  } else if (!result.store_error.empty()) {
    const std::string lost = "the launcher of node 0 cannot be reached any more";
    out = well_here ? cat("this node's ranks succeeded, but ", lost, "\n")
                    : cat(lost, ", so node ", result.node_rank, " stopped its ranks\n");
    append_indented(out, "error: ", result.store_error);
  } else if (lost_machine(result)) {
    out = well_here
              ? cat("this node's ranks succeeded, but ", gone_text(result), "\n")
              : cat(gone_text(result), ", so node ", result.node_rank, " stopped its ranks\n");
  } else if (well_here) {
    out = cat("this node's ranks succeeded, but ",
              result.wait_cut ? "the user did not wait for the other nodes\n"
                              : "ranks on other nodes did not\n");
  } else {
    out = cat(result.killed ? "the job was killed" : "the job was stopped",
              has_own_rank(result) ? " before its ranks had finished\n"
                                   : " before its ranks were started\n");
  }
}

// Describes a failure that no rank caused, in the format of cause_json(): a launcher gave up, or
// the connection to a machine or to the store is lost. Returns null if none of these failures
// occurred.
Json lost_node_json(const JobResult& result) {
  Json json = {{"rank", nullptr},    {"node", nullptr},        {"step", nullptr},
               {"hangs", false},     {"exit_status", nullptr}, {"signal", nullptr},
               {"message", nullptr}, {"hint", nullptr},        {"last_collective", nullptr},
               {"log", nullptr}};
  if (!result.failed_launchers.empty()) {
    const auto& [node, error] = result.failed_launchers.front();
    json["node"] = node;
    json["message"] = error.message;
    if (!error.hint.empty()) json["hint"] = error.hint;
  } else if (!result.store_error.empty()) {
    json["node"] = 0;
    json["message"] =
        cat("the launcher of node 0 cannot be reached any more: ", result.store_error);
  } else if (lost_machine(result)) {
    json["node"] = result.silent_nodes.front();
    json["message"] = gone_text(result);
  } else {
    return {};
  }
  return json;
}

}  // namespace

std::string end_text(const RankExit& rank) {
  if (rank.signal == 0) return cat("exit status ", rank.exit_status);
  const char* name = signal_name(rank.signal);
  const char* words = signal_description(rank.signal);
  if (name == nullptr || words == nullptr) return cat("signal ", rank.signal);
  return cat("signal SIG", name, " (", words, ")");
}

std::string describe(const JobResult& result) {
  if (result.exit_status == 0) return {};
  const bool lost_launcher = !result.store_error.empty() || !result.failed_launchers.empty();
  std::string out;
  if (!result.cause || (lost_launcher && only_lost_a_peer(result))) {
    append_no_cause(out, result);
  } else if (result.cause->witness) {
    append_hang(out, result);
  } else {
    append_death(out, result);
    if (only_lost_a_peer(result) && result.num_nodes > 1) {
      out +=
          "  this rank only lost its connection to a peer: the cause is on a machine that reported "
          "nothing\n";
    }
  }
  append_others(out, result);
  return out;
}

Json cause_json(const JobResult& result) {
  if (!result.cause) return lost_node_json(result);
  const FirstCause& cause = *result.cause;
  const RankExit* end = cause.end ? &result.ranks[*cause.end] : nullptr;
  const RankError* error = nullptr;
  if (cause.witness) {
    error = &*result.ranks[*cause.witness].error;
  } else if (end->error) {
    error = &*end->error;
  }
  const auto text = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
  Json json = {{"rank", cause.rank}, {"node", cause.node}};
  std::optional<int64_t> step = error != nullptr ? error->step : std::nullopt;
  if (!step && end != nullptr && end->last_word) step = end->last_word->step;
  json["step"] = step ? Json(*step) : Json();
  const bool suspended = end != nullptr && end->suspended;
  json["hangs"] = cause.witness.has_value() || suspended;
  // A hanging or suspended rank did not cause the failure by ending: usually the launcher stopped
  // the rank later. Its exit status and signal are therefore left out.
  const bool died = !cause.witness && !suspended;
  json["exit_status"] = died && end->signal == 0 ? Json(end->exit_status) : Json();
  json["signal"] = died && end->signal != 0 ? Json(end->signal) : Json();
  json["message"] = error != nullptr ? text(error->message) : Json();
  json["hint"] = error != nullptr ? text(error->hint) : Json();
  json["last_collective"] = error != nullptr ? text(error->last_collective) : Json();
  json["log"] = end != nullptr ? text(end->log.string()) : Json();
  return json;
}

}  // namespace am::launch
