// Resolves a command's operands to parameters, states, or slices of them.
//
//   for (const Picked& picked : pick_all(session, arguments.words)) {   // stats *norm* w[0:4]
//     std::cout << picked.label << "\n";
//   }
//
// An operand is a name, a unique suffix of a name, a glob, or where noted a module; NAME[0:4, :8]
// is a slice.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "am/inspect/session.h"
#include "am/inspect/slice.h"

namespace am::inspect {

struct Picked {
  const HeldParameter* parameter = nullptr;
  Selection selection;     // the whole tensor if there is no slice
  std::string label;       // the name, with the slice
  std::set<size_t> taken;  // dims removed by an index of the slice

  int64_t numel() const { return selection.box.numel(); }
  int64_t bytes() const { return numel() * formats::dtype_size(parameter->dtype); }
};

Picked whole_tensor(const HeldParameter& tensor);
// Returns the tensors in the order in which they are named, each once. A module selects all its
// parameters; no words select all parameters. Throws Error(kUsage) if nothing matches, and for a
// slice of several tensors.
std::vector<Picked> pick_all(const Session& session, const std::vector<std::string>& words);
// Like pick_all, but modules are not accepted.
std::vector<Picked> pick_tensors(const Session& session, const std::vector<std::string>& words);
// Stored bytes of the picked tensors.
int64_t bytes_of(const std::vector<Picked>& all);
// Returns exactly one tensor. Throws Error(kUsage) for a glob with several matches.
Picked pick_one(const Session& session, const std::vector<std::string>& words);

}  // namespace am::inspect
