#include "am/formats/parquet/column.h"

#include <bit>

#include "am/base/map_guard.h"

namespace am::formats::parquet {

namespace {

int bits_of_level(int most) { return std::bit_width(static_cast<unsigned>(most)); }

// Returns the bytes of the repetition or definition levels of a data page of version 1. The page
// stores their size in the 4 bytes before them. `most`: the highest level. If `most` is 0, the page
// stores neither size nor levels.
Bytes take_levels(ByteReader& page, int most, Encoding encoding) {
  if (most == 0) return {};
  if (encoding != Encoding::kRle) {
    fail_unsupported(cat("levels in the encoding ", name_of(encoding), " are not supported"));
  }
  return page.take(page.number<uint32_t>());
}

}  // namespace

ColumnReader::ColumnReader(Bytes file, const SchemaLeaf& leaf, const ColumnChunk& chunk)
    : leaf_(leaf), codec_(chunk.codec), file_(file), entries_left_(chunk.values) {
  at_place(
      [&] {
        if (chunk.encrypted) fail_unsupported("the column is encrypted");
        if (chunk.elsewhere) fail_unsupported("the column is in another file");
        if (chunk.type != leaf.type) fail_damaged("the type differs from that in the schema");
        const auto size = static_cast<int64_t>(file.size());
        if (chunk.offset > size || chunk.bytes > size - chunk.offset) {
          fail_damaged("the column's bytes are behind the end of the file");
        }
      },
      [&] { return cat("column \"", leaf.path, "\""); });
  at_ = page_ = static_cast<size_t>(chunk.offset);
  end_ = at_ + static_cast<size_t>(chunk.bytes);
  at_place([&] { read_entry(); }, [&] { return place(); });
}

std::string ColumnReader::place() const {
  return cat("column \"", leaf_.path, "\", page at byte ", page_);
}

Json ColumnReader::take() {
  return at_place(
      [&] {
        Json value;
        if (def_ == leaf_.most_def) value = values_->next();
        read_entry();
        return value;
      },
      [&] { return place(); });
}

void ColumnReader::read_entry() {
  rep_ = def_ = 0;
  while (left_in_page_ == 0) {
    if (!next_page()) {
      at_end_ = true;
      return;
    }
  }
  --left_in_page_;
  rep_ = static_cast<int>(reps_.next());
  def_ = static_cast<int>(defs_.next());
  if (rep_ > leaf_.most_rep || def_ > leaf_.most_def) fail_damaged("a level is too high");
}

// Opens the next page, which may be a dictionary or have no entries. Returns false if all entries
// of the column chunk have been read.
bool ColumnReader::next_page() {
  if (entries_left_ == 0) return false;
  if (at_ == end_) fail_damaged(cat("the pages lack ", entries_left_, " values"));
  page_ = at_;
  const PageHeader header = read_page_header(file_.subspan(at_, end_ - at_));
  at_ += static_cast<size_t>(header.header_bytes);
  const auto left = static_cast<int64_t>(end_ - at_);
  if (header.stored_bytes > left) {
    fail_damaged(cat("the page would have ", header.stored_bytes, " bytes, but ", left,
                     " are left in its column"));
  }
  const Bytes stored = file_.subspan(at_, static_cast<size_t>(header.stored_bytes));
  at_ += stored.size();
  forget_read_pages(stored.size());
  if (header.type == PageType::kIndex) return true;
  if (header.checksum) require_checksum(stored, *header.checksum);
  if (header.type == PageType::kDictionary) {
    if (has_dictionary_) fail_damaged("the column has two dictionaries");
    dictionary_ =
        read_dictionary(leaf_, header, unpack(codec_, stored, header.unpacked_bytes, buffer_));
    has_dictionary_ = true;
    return true;
  }
  if (header.type != PageType::kData && header.type != PageType::kDataV2) {
    fail_damaged(cat("the page has the unknown type ", static_cast<int>(header.type)));
  }
  if (header.values > entries_left_) fail_damaged("the pages have more values than the column");
  entries_left_ -= header.values;
  left_in_page_ = header.values;
  open_data_page(header, stored);
  return true;
}

void ColumnReader::open_data_page(const PageHeader& header, Bytes stored) {
  values_.reset();
  Bytes values;
  if (header.type == PageType::kData) {
    ByteReader page(unpack(codec_, stored, header.unpacked_bytes, buffer_));
    const Bytes reps = take_levels(page, leaf_.most_rep, header.rep_encoding);
    const Bytes defs = take_levels(page, leaf_.most_def, header.def_encoding);
    open_levels(reps, defs);
    values = page.rest();
  } else {
    ByteReader page(stored);
    const Bytes reps = page.take(static_cast<uint64_t>(header.rep_bytes));
    const Bytes defs = page.take(static_cast<uint64_t>(header.def_bytes));
    open_levels(reps, defs);
    const auto levels = static_cast<int64_t>(page.at());
    if (levels > header.unpacked_bytes) fail_damaged("the levels are longer than the page");
    values = unpack(header.compressed ? codec_ : Codec::kUncompressed, page.rest(),
                    header.unpacked_bytes - levels, buffer_);
  }
  values_ = read_values(leaf_, header.encoding, values, has_dictionary_ ? &dictionary_ : nullptr);
}

void ColumnReader::open_levels(Bytes reps, Bytes defs) {
  reps_ = RunReader(reps, bits_of_level(leaf_.most_rep));
  defs_ = RunReader(defs, bits_of_level(leaf_.most_def));
}

}  // namespace am::formats::parquet
