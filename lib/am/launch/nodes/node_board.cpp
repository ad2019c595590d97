#include "am/launch/nodes/node_board.h"

#include <sstream>
#include <string_view>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"

namespace am::launch {
namespace {

constexpr std::string_view kStep = "step ";

// Anybody who reaches the board can write to it: what it says is checked before it is a port, the
// name of a checkpoint or a number of ranks.
[[noreturn]] void unexpected(const std::string& what, const std::string& text) {
  throw Error(ErrorKind::kPeer, cat("the launchers' board: `", what, "` holds \"",
                                    text.substr(0, 80), "\", which no launcher has written"));
}

}  // namespace

std::string beat_key(const std::string& run_id, int64_t node) {
  return cat("automesh/launch/", run_id, "/beat-", node);
}

NodeBoard::NodeBoard(Board& board, const std::string& run_id, int64_t attempt, int64_t node_rank,
                     int64_t num_nodes)
    : board_(board),
      run_id_(run_id),
      prefix_(cat("automesh/launch/", run_id, "/attempt-", attempt, "/")),
      node_rank_(node_rank),
      num_nodes_(num_nodes) {}

std::optional<int64_t> NodeBoard::number(const std::string& what, int64_t low, int64_t high) {
  const auto text = board_.get(key(what));
  if (!text) return std::nullopt;
  const auto value = parse_integer(*text);
  if (!value || *value < low || *value > high) unexpected(what, *text);
  return value;
}

void NodeBoard::publish_terms(const JobTerms& terms) {
  board_.set(key("terms"), cat(terms.nproc, " ", terms.num_nodes, " ", terms.max_restarts));
}

std::optional<JobTerms> NodeBoard::terms() {
  const auto text = board_.get(key("terms"));
  if (!text) return std::nullopt;
  std::istringstream fields(*text);
  JobTerms terms;
  if (!(fields >> terms.nproc >> terms.num_nodes >> terms.max_restarts)) unexpected("terms", *text);
  return terms;
}

std::optional<std::string> NodeBoard::beat_of(int64_t node) {
  return board_.get(beat_key(run_id_, node));
}

void NodeBoard::ring_bell() { board_.set(key("bell"), std::to_string(node_rank_)); }

std::optional<int64_t> NodeBoard::bell() { return number("bell", 0, num_nodes_ - 1); }

void NodeBoard::publish_for(int64_t node, const NodeReport& report) {
  board_.set(key(cat("report-", node)), to_text(report));
}

std::optional<NodeReport> NodeBoard::report_of(int64_t node) {
  const auto text = board_.get(key(cat("report-", node)));
  return text ? node_report_from(*text) : std::nullopt;
}

void NodeBoard::publish_port(int port) { board_.set(key("port"), std::to_string(port)); }

std::optional<int> NodeBoard::port() {
  const auto port = number("port", 1, 65535);
  return port ? std::optional(static_cast<int>(*port)) : std::nullopt;
}

void NodeBoard::decide(const NextAttempt& next) {
  // "stop", "start" or "step 200"
  board_.set(key("next"), !next.restart ? "stop" : next.step ? cat(kStep, *next.step) : "start");
}

std::optional<NextAttempt> NodeBoard::decision() {
  const auto text = board_.get(key("next"));
  if (!text) return std::nullopt;
  if (*text == "stop") return NextAttempt{false, std::nullopt};
  if (*text == "start") return NextAttempt{true, std::nullopt};
  const auto step =
      starts_with(*text, kStep) ? parse_integer(text->substr(kStep.size())) : std::nullopt;
  if (!step || *step < 0) unexpected("next", *text);
  return NextAttempt{true, step};
}

void NodeBoard::leave() { board_.set(key(cat("left-", node_rank_)), "1"); }

bool NodeBoard::has_left(int64_t node) { return board_.get(key(cat("left-", node))).has_value(); }

}  // namespace am::launch
