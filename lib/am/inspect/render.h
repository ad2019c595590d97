// Renders results of commands with am/term's tables and pictures.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/inspect/tensor_catalog.h"
#include "am/term/style.h"

namespace am::inspect {

// "name  value" lines.
std::string draw_facts(const std::vector<std::pair<std::string, std::string>>& facts,
                       const term::Style& style);
// Draws which rank holds which part of a parameter.
std::string draw_shards(const HeldParameter& parameter, std::span<const HeldShard> shards,
                        const term::Style& style);
// Draws every rank: one box per pipeline stage, rows along the data-parallel axes and cp, columns
// along tp.
std::string draw_mesh(const mesh::MeshLayout& mesh, const term::Style& style);
// Bytes of shards and full tensors per rank, next to the full tensors of a non-empty `before`.
std::string draw_held_bytes(const std::vector<HeldBytes>& before,
                            const std::vector<HeldBytes>& after, const term::Style& style);

// "[0:16, 0:32]"; "nothing" for an empty box.
std::string box_text(const mesh::Box& box);

// Makes a model's text safe to print: bytes that are not UTF-8, and control characters other than
// newline and tab, become U+FFFD ('?' in an ASCII locale).
std::string printable_text(std::string_view text, const term::Style& style);
// As printable_text, in quotes and on one line: newline and tab become \n and \t.
std::string quoted_text(std::string_view text, const term::Style& style);

}  // namespace am::inspect
