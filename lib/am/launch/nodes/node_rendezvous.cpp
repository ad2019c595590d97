#include "am/launch/nodes/node_rendezvous.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"

namespace am::launch {
namespace {

constexpr std::string_view kStep = "step ";

// Throws Error(kPeer) for a value that no launcher has written. Any process that reaches the store
// can write to it. Values are therefore checked before they are used as a port, a checkpoint's step
// or a number of ranks. `what` is the message and `text` its value.
[[noreturn]] void unexpected(const std::string& what, const std::string& text) {
  throw Error(ErrorKind::kPeer, cat("the launchers' store: `", what, "` holds \"",
                                    text.substr(0, 80), "\", which no launcher has written"));
}

}  // namespace

std::chrono::milliseconds look_interval(int64_t num_nodes) {
  return std::chrono::milliseconds(std::clamp<int64_t>(num_nodes, 500, 1000));
}

std::string heartbeat_key(const std::string& run_id, int64_t node) {
  return cat("automesh/launch/", run_id, "/heartbeat-", node);
}

NodeRendezvous::NodeRendezvous(KeyValueStore& store, const std::string& run_id, int64_t attempt,
                               int64_t node_rank, int64_t num_nodes)
    : store_(store),
      run_id_(run_id),
      prefix_(cat("automesh/launch/", run_id, "/attempt-", attempt, "/")),
      node_rank_(node_rank),
      num_nodes_(num_nodes) {}

std::optional<int64_t> NodeRendezvous::number(const std::string& what, int64_t low, int64_t high) {
  const auto text = store_.get(key(what));
  if (!text) return std::nullopt;
  const auto value = parse_integer(*text);
  if (!value || *value < low || *value > high) unexpected(what, *text);
  return value;
}

void NodeRendezvous::publish_terms(const JobTerms& terms) {
  store_.set(key("terms"), cat(terms.nproc, " ", terms.num_nodes, " ", terms.max_restarts));
}

std::optional<JobTerms> NodeRendezvous::terms() {
  const auto text = store_.get(key("terms"));
  if (!text) return std::nullopt;
  std::istringstream fields(*text);
  JobTerms terms;
  if (!(fields >> terms.nproc >> terms.num_nodes >> terms.max_restarts)) unexpected("terms", *text);
  return terms;
}

std::optional<std::string> NodeRendezvous::heartbeat_of(int64_t node) {
  return store_.get(heartbeat_key(run_id_, node));
}

void NodeRendezvous::raise_abort() { store_.set(key("abort"), std::to_string(node_rank_)); }

std::optional<int64_t> NodeRendezvous::aborting_node() {
  return number("abort", 0, num_nodes_ - 1);
}

void NodeRendezvous::publish(const NodeReport& report) {
  store_.set(key(cat("report-", node_rank_)), to_text(report));
}

std::optional<NodeReport> NodeRendezvous::report_of(int64_t node) {
  const auto text = store_.get(key(cat("report-", node)));
  return text ? node_report_from(*text) : std::nullopt;
}

void NodeRendezvous::publish(const Verdict& verdict) {
  store_.set(key("verdict"), to_text(verdict));
}

std::optional<Verdict> NodeRendezvous::verdict(int64_t ranks_per_node) {
  const auto text = store_.get(key("verdict"));
  if (!text) return std::nullopt;
  auto verdict = verdict_from(*text, ranks_per_node);
  if (!verdict) unexpected("verdict", *text);
  return verdict;
}

void NodeRendezvous::publish_port(int port) { store_.set(key("port"), std::to_string(port)); }

std::optional<int> NodeRendezvous::port() {
  const auto port = number("port", 1, 65535);
  return port ? std::optional(static_cast<int>(*port)) : std::nullopt;
}

void NodeRendezvous::decide(const NextAttempt& next) {
  // Texts of a decision: "stop", "start" (a restart without a checkpoint), or "step 200" (a restart
  // from the checkpoint of step 200).
  store_.set(key("next"), !next.restart ? "stop" : next.step ? cat(kStep, *next.step) : "start");
}

std::optional<NextAttempt> NodeRendezvous::decision() {
  const auto text = store_.get(key("next"));
  if (!text) return std::nullopt;
  if (*text == "stop") return NextAttempt{false, std::nullopt};
  if (*text == "start") return NextAttempt{true, std::nullopt};
  const auto step =
      starts_with(*text, kStep) ? parse_integer(text->substr(kStep.size())) : std::nullopt;
  if (!step || *step < 0) unexpected("next", *text);
  return NextAttempt{true, step};
}

void NodeRendezvous::leave() { store_.set(key(cat("left-", node_rank_)), "1"); }

bool NodeRendezvous::has_left(int64_t node) {
  return store_.get(key(cat("left-", node))).has_value();
}

}  // namespace am::launch
