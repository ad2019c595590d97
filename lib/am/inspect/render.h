// Formats the results of commands with the tables and pictures of am/term.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/inspect/tensor_catalog.h"
#include "am/term/style.h"

namespace am::inspect {

// Returns one line "name  value" for each fact, with the values in one column.
std::string draw_facts(const std::vector<std::pair<std::string, std::string>>& facts,
                       const term::Style& style);
// Draws which part of a parameter each rank stores.
std::string draw_shards(const HeldParameter& parameter, std::span<const HeldShard> shards,
                        const term::Style& style);
// Draws all ranks of the mesh: one box per index along pp, with one column per index along tp and
// one row per combination of indices along dp_replicate, dp_shard and cp.
std::string draw_mesh(const mesh::MeshLayout& mesh, const term::Style& style);
// Draws a table of the memory sizes in `after`, one row per rank. If `before` is not empty, an
// additional column shows HeldBytes::unsharded of the same rank in `before`, which must then list
// the same ranks as `after`.
std::string draw_held_bytes(const std::vector<HeldBytes>& before,
                            const std::vector<HeldBytes>& after, const term::Style& style);

// Returns the index ranges of the box, for example "[0:16, 0:32]"; "nothing" if the box is empty.
std::string box_text(const mesh::Box& box);

// Returns a text that a model generated, in a form that is safe to print: U+FFFD replaces invalid
// UTF-8 and control characters other than newline and tab. Without style.unicode, '?' replaces
// these characters and all characters beyond ASCII.
std::string printable_text(std::string_view text, const term::Style& style);
// Returns printable_text() in double quotes and on one line: newline and tab become \n and \t, and
// quotes and backslashes are escaped.
std::string quoted_text(std::string_view text, const term::Style& style);

}  // namespace am::inspect
