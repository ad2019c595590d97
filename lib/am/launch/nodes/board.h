// A small key-value board that the launchers of all nodes of a job share.
//
//   board.set("automesh/none/0/bell", "1");
//   if (const auto text = board.get("automesh/none/0/bell")) ...
//
// The seam between launchers of several machines: supervise() and supervise_with_restarts() tell
// each other through it which rank failed first and how to go on. Values are short texts.
#pragma once

#include <optional>
#include <string>

namespace am::launch {

class Board {
 public:
  Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  virtual ~Board() = default;

  // Both throw Error(kPeer) when the board cannot be reached any more. They may wait for whoever
  // holds it: a launcher, which must not, asks through a BackgroundBoard.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Nothing, at once, where no value was set yet.
  virtual std::optional<std::string> get(const std::string& key) = 0;
};

}  // namespace am::launch
