// What a command's operands name: parameters, states, or slices of them.
//
//   for (const Picked& picked : pick_all(session, arguments.words)) ...   // stats *norm* w[0:4]
//
// A name, the unique end of one, a glob, and where it says so a module; NAME[0:4, :8] is a part.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "am/inspect/session.h"
#include "am/inspect/slice.h"

namespace am::inspect {

struct Picked {
  const HeldParameter* parameter = nullptr;
  Selection selection;     // all of it without a slice
  std::string label;       // its name, with the slice
  std::set<size_t> taken;  // dims that an index of the slice took

  int64_t numel() const { return selection.box.numel(); }
  int64_t bytes() const { return numel() * formats::dtype_size(parameter->dtype); }
};

Picked whole_tensor(const HeldParameter& tensor);
// In the order in which they are named, each once; modules name what is in them, no words all
// parameters. Throws Error(kUsage) for what matches nothing and for slices of several.
std::vector<Picked> pick_all(const Session& session, const std::vector<std::string>& words);
// The same without modules: whoever asks means tensors.
std::vector<Picked> pick_tensors(const Session& session, const std::vector<std::string>& words);
// What is stored of them.
int64_t bytes_of(const std::vector<Picked>& all);
// One alone. Throws Error(kUsage) for a glob of several.
Picked pick_one(const Session& session, const std::vector<std::string>& words);

}  // namespace am::inspect
