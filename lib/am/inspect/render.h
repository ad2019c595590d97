// How commands draw what they found, with am/term's tables and pictures.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/inspect/holdings.h"
#include "am/term/style.h"

namespace am::inspect {

// "name  value" lines.
std::string draw_facts(const std::vector<std::pair<std::string, std::string>>& facts,
                       const term::Style& style);
// Which rank holds what of a parameter.
std::string draw_shards(const HeldParameter& parameter, std::span<const HeldShard> shards,
                        const term::Style& style);
// Every rank in its place: a box a pipeline stage, rows along the data-parallel axes and cp,
// columns along tp.
std::string draw_mesh(const mesh::MeshLayout& mesh, const term::Style& style);
// Shards and full tensors, rank by rank; with the full ones of `before`, unless that is empty.
std::string draw_held_bytes(const std::vector<HeldBytes>& before,
                            const std::vector<HeldBytes>& after, const term::Style& style);

// "[0:16, 0:32]"; "nothing" for an empty box.
std::string box_text(const mesh::Box& box);

// A model's text, safe to print: bytes that are not UTF-8, and control characters but newline and
// tab, become U+FFFD
// ('?' in an ASCII locale).
std::string printable_text(std::string_view text, const term::Style& style);
// The same on one line and in quotes: newline and tab as \n and \t.
std::string quoted_text(std::string_view text, const term::Style& style);

}  // namespace am::inspect
