#include "am/launch/node_board.h"

#include <cstdlib>
#include <sstream>

#include "am/base/text.h"

namespace am::launch {

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

void NodeBoard::publish_terms(const JobTerms& terms) {
  board_.set(key("terms"), cat(terms.nproc, " ", terms.num_nodes, " ", terms.max_restarts));
}

std::optional<JobTerms> NodeBoard::terms() {
  const auto text = board_.get(key("terms"));
  if (!text) return std::nullopt;
  std::istringstream fields(*text);
  JobTerms terms;
  fields >> terms.nproc >> terms.num_nodes >> terms.max_restarts;
  return terms;
}

std::optional<std::string> NodeBoard::beat_of(int64_t node) {
  return board_.get(beat_key(run_id_, node));
}

void NodeBoard::ring_bell() { board_.set(key("bell"), std::to_string(node_rank_)); }

std::optional<int64_t> NodeBoard::bell() {
  const auto text = board_.get(key("bell"));
  if (!text) return std::nullopt;
  return std::strtoll(text->c_str(), nullptr, 10);
}

void NodeBoard::publish_for(int64_t node, const NodeReport& report) {
  board_.set(key(cat("report-", node)), to_text(report));
}

std::optional<NodeReport> NodeBoard::report_of(int64_t node) {
  const auto text = board_.get(key(cat("report-", node)));
  return text ? node_report_from(*text) : std::nullopt;
}

void NodeBoard::publish_port(int port) { board_.set(key("port"), std::to_string(port)); }

std::optional<int> NodeBoard::port() {
  const auto text = board_.get(key("port"));
  if (!text) return std::nullopt;
  return static_cast<int>(std::strtol(text->c_str(), nullptr, 10));
}

void NodeBoard::decide(const NextAttempt& next) {
  // "stop", "start" or "step 200"
  board_.set(key("next"), !next.restart ? "stop" : next.step ? cat("step ", *next.step) : "start");
}

std::optional<NextAttempt> NodeBoard::decision() {
  const auto text = board_.get(key("next"));
  if (!text) return std::nullopt;
  NextAttempt next;
  next.restart = *text != "stop";
  if (starts_with(*text, "step ")) next.step = std::strtoll(text->c_str() + 5, nullptr, 10);
  return next;
}

void NodeBoard::leave() { board_.set(key(cat("left-", node_rank_)), "1"); }

bool NodeBoard::has_left(int64_t node) { return board_.get(key(cat("left-", node))).has_value(); }

}  // namespace am::launch
