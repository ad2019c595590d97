// Which of the ranks that hold the same boxes writes each: every rank finds the same answer from
// what it holds, without a message.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace am::run_folder {

// A box that `replicas` ranks hold. `holders` names them: boxes of the same name are held by the
// same ranks, which list them in the same order.
struct HeldBox {
  int64_t bytes = 0;
  int64_t replicas = 1;
  std::string holders;
};

// The number, below `replicas`, of each box's writer: the largest first to whoever has least of
// those ranks' boxes until then. 0 where nobody else holds it.
std::vector<int64_t> choose_writers(const std::vector<HeldBox>& boxes);

}  // namespace am::run_folder
