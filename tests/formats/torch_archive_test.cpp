// Tests reading files of torch.save (scripts/fixtures/make_dcp_fixtures.py made plain.pt and
// legacy.pt), and the errors for inconsistent archives.
#include "am/formats/torch_archive.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <functional>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/formats/zip_records.h"
#include "support/folders.h"

using namespace am;
using namespace am::formats;

namespace {

std::string plain_pt() {
  return read_file(std::filesystem::path(am::test::kDataFolder) / "dcp" / "plain.pt");
}

std::span<const std::byte> archive_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string archive_problem(const std::string& text) {
  try {
    const auto archive = TorchArchive::read(archive_bytes(text), "f");
    for (const auto& item : archive.root().items()) archive.tensor(item);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    return error.what();
  }
  return "none";
}

// A record to write into a zip archive.
struct MadeRecord {
  std::string name;
  std::string data;
};

void put(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    out += static_cast<char>(i < sizeof value ? value >> (8 * i) & 0xFF : 0);
}

// Wrong values to write into an archive.
struct Lie {
  std::string local_name = {};  // name in the local header of the first record
  uint16_t method = 0;          // in the first record's directory entry
  uint64_t offset_shift = 0;    // subtracted from the offset of the second record's local header
  uint64_t size_more = 0;       // added to the size in the first record's directory entry
  uint16_t entries_more = 0;
  std::string tail = {};
};

std::string made_zip(const std::vector<MadeRecord>& records, const Lie& lie = {}) {
  std::string out;
  std::string directory;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto& [name, data] = records[i];
    const bool first = i == 0;
    const uint64_t at = out.size() - (i == 1 ? lie.offset_shift : 0);
    const std::string local = first && !lie.local_name.empty() ? lie.local_name : name;
    put(out, 0x04034b50, 4);
    put(out, 0, 22);
    put(out, local.size(), 2);
    put(out, 0, 2);
    out += local + data;
    put(directory, 0x02014b50, 4);
    put(directory, 0, 6);
    put(directory, first ? lie.method : 0, 2);
    put(directory, 0, 8);
    put(directory, data.size() + (first ? lie.size_more : 0), 4);
    put(directory, data.size() + (first ? lie.size_more : 0), 4);
    put(directory, name.size(), 2);
    put(directory, 0, 12);
    put(directory, at, 4);
    directory += name;
  }
  const size_t begin = out.size();
  out += directory;
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, records.size() + lie.entries_more, 2);
  put(out, records.size() + lie.entries_more, 2);
  put(out, directory.size(), 4);
  put(out, begin, 4);
  put(out, 0, 2);
  return out + lie.tail;
}

std::string zip_problem(const std::string& text) {
  try {
    read_zip_records(archive_bytes(text), "f");
  } catch (const Error& error) {
    const std::string prefix = "f: not a valid file of torch.save: ";
    const std::string what = error.what();
    REQUIRE(starts_with(what, prefix));
    return what.substr(prefix.size());
  }
  return "none";
}

}  // namespace

TEST_CASE("tensors of a .pt file: shared storages, views, strides, parameters") {
  const std::string bytes = plain_pt();
  const auto archive = TorchArchive::read(archive_bytes(bytes), "plain.pt");
  const auto tensor = [&](std::string_view key) {
    const PickleValue* value = archive.root().find(key);
    REQUIRE(value != nullptr);
    return archive.tensor(*value);
  };
  const auto embedding = tensor("embed.weight");
  REQUIRE(embedding);
  CHECK(embedding->dtype == "float32");
  CHECK(embedding->shape == Shape{2, 3});
  CHECK(embedding->strides == Shape{3, 1});
  CHECK(tensor("head.weight")->data.data() == embedding->data.data());
  const auto part = tensor("part");
  CHECK(part->shape == Shape{1, 2});
  float first = 0;
  std::memcpy(&first, part->data.data(), sizeof first);
  CHECK(first == 4.0F);
  CHECK(part->data.size() == 2 * sizeof(float));
  CHECK(tensor("transposed")->strides == Shape{1, 3});
  CHECK(tensor("parameter")->dtype == "bfloat16");
  CHECK_FALSE(tensor("step"));
}

TEST_CASE("a file that is cut off anywhere is refused") {
  const std::string whole = plain_pt();
  CHECK(archive_problem(whole) == "none");
  for (size_t size = 0; size < whole.size(); size += 7) {
    CHECK(archive_problem(whole.substr(0, size)) != "none");
  }
}

TEST_CASE("a tensor that reaches beyond its storage is refused") {
  // Opcodes for the size (2, 3) of embed.weight in data.pkl: BININT1 2, BININT1 3, TUPLE2.
  std::string lying = plain_pt();
  const size_t at = lying.find("K\x02K\x03\x86");
  REQUIRE(at != std::string::npos);
  lying[at + 1] = '\x7f';
  CHECK(archive_problem(lying).find("does not fit in its storage of 6 elements") !=
        std::string::npos);
}

TEST_CASE("records of a zip archive") {
  const std::string zip = made_zip({{"a/data.pkl", "N."}, {"a/data/0", "xyz"}});
  const auto records = read_zip_records(archive_bytes(zip), "f");
  REQUIRE(records.size() == 2);
  CHECK(records[1].name == "a/data/0");
  CHECK(std::memcmp(records[1].data.data(), "xyz", 3) == 0);
  CHECK(is_zip(archive_bytes(zip)));
  CHECK_FALSE(is_zip(archive_bytes("PK")));
}

TEST_CASE("archives that two readers would read differently are refused") {
  const std::vector<MadeRecord> two = {{"a/b", "data"}, {"a/c", "more"}};
  CHECK(zip_problem(made_zip(two)) == "none");
  CHECK(zip_problem(made_zip(two, {.local_name = "a/x"})) ==
        "the record \"a/b\" has another name in its header");
  CHECK(zip_problem(made_zip(two, {.method = 8})) == "the record \"a/b\" is compressed");
  CHECK(zip_problem(made_zip(two, {.offset_shift = 1})) ==
        "the record \"a/c\" has no local header");
  CHECK(zip_problem(made_zip(two, {.size_more = 10})) == "two records overlap at byte 37");
  CHECK(zip_problem(made_zip(two, {.size_more = 1000})).find("it needs ") == 0);
  CHECK(zip_problem(made_zip(two, {.entries_more = 1})) ==
        "3 records do not fit in a directory of 98 bytes");
  CHECK(zip_problem(made_zip(two, {.entries_more = 1000}))
            .find("records do not fit in a directory of") != std::string::npos);
  CHECK(zip_problem(made_zip(two, {.tail = "x"})) == "the end record of the zip file is missing");
  CHECK(zip_problem(made_zip({{"a/b", "1"}, {"a/b", "2"}})) == "two records have the name \"a/b\"");
  CHECK(zip_problem("") == "the end record of the zip file is missing");
}

TEST_CASE("files of the older format are the same, and refused where they are cut off") {
  const std::string bytes =
      read_file(std::filesystem::path(am::test::kDataFolder) / "dcp" / "legacy.pt");
  const auto legacy = TorchArchive::read(archive_bytes(bytes), "f");
  const std::string today = plain_pt();
  const auto plain = TorchArchive::read(archive_bytes(today), "f");
  for (const char* name : {"embed.weight", "head.weight", "part", "transposed", "parameter"}) {
    INFO(name);
    const auto old = legacy.tensor(*legacy.root().find(name));
    const auto expected = plain.tensor(*plain.root().find(name));
    REQUIRE(old.has_value());
    CHECK(old->dtype == expected->dtype);
    CHECK(old->shape == expected->shape);
    CHECK(old->strides == expected->strides);
    CHECK(std::equal(old->data.begin(), old->data.end(), expected->data.begin(),
                     expected->data.end()));
  }
  CHECK(archive_problem(bytes + "what follows") == "none");
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK(archive_problem(bytes.substr(0, size)) != "none");
  }
  for (size_t place = 0; place < bytes.size(); ++place) {
    std::string changed = bytes;
    for (const int other : {0, 1, 0x28, 0x52, 0x7F, 0x80, 0xFF}) {
      changed[place] = static_cast<char>(other);
      archive_problem(changed);  // fails for any exception except Error(kFormat)
    }
  }
}
