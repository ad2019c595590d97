// Tests a checkpoint's index.json: writing, reading, merging the indices of ranks, and errors that
// name the place of a mistake.
#include "am/run_folder/shard_index.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::run_folder {
namespace {

ShardIndex of_rank(int64_t rank) {
  ShardIndex index;
  index.save_id = "s";
  index.files.push_back({data_file_name(rank), 10'000});
  index.tensors.push_back(
      {"layers.10.w", "float32", {4, 3}, {{0, 4'096, 50, 4'200, {{2 * rank, 0}, {2, 3}}, {7}}}});
  index.tensors.push_back({cat("layers.", 2 + rank, ".w"), "int8", {0}, {}});
  return index;
}

std::string problem_of(std::string text, const std::string& old, const std::string& with) {
  const size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  text.replace(at, old.size(), with);
  try {
    parse_shard_index(text, "index.json");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("an index without its files or tensors is an error, not an empty checkpoint") {
  const std::string text = to_json_text(ShardIndex{});
  CHECK(problem_of(text, "tensors", "tensors") == "none");
  CHECK(problem_of(text, "tensors", "tensorz").find("the index has no \"tensors\"") !=
        std::string::npos);
  CHECK(problem_of(text, "files", "filez").find("the index has no \"files\"") != std::string::npos);
}

TEST_CASE("ranks' indices become one, which is kept") {
  std::vector<ShardIndex> parts = {of_rank(0), of_rank(1)};
  const ShardIndex index = merge(parts);
  const ShardIndex read = parse_shard_index(to_json_text(index), "index.json");
  CHECK(read.save_id == "s");
  REQUIRE(read.files.size() == 2);
  CHECK((read.files[1].name == "__1_0.distcp" && read.files[1].bytes == 10'000));
  REQUIRE(read.tensors.size() == 3);
  CHECK(read.tensors[0].name == "layers.2.w");
  CHECK(read.tensors[2].name == "layers.10.w");
  REQUIRE(read.tensors[2].boxes.size() == 2);
  const IndexedBox& second = read.tensors[2].boxes[1];
  CHECK((second.file == 1 && second.position == 4'096 && second.slice_offset == 50 &&
         second.slice_length == 4'200));
  CHECK((second.box == mesh::Box{{2, 0}, {2, 3}}));
  CHECK(second.checksums == std::vector<uint32_t>{7});
  CHECK(to_json_text(read) == to_json_text(index));
  parts[1].tensors[0].dtype = "int32";
  CHECK_THROWS_WITH(merge(parts), Catch::Contains("layers.10.w: two ranks disagree"));
}

TEST_CASE("an index is read as far as one wants it") {
  const std::string text = to_json_text(merge({of_rank(0), of_rank(1)}));
  IndexVisit visit;
  visit.wants = [](const std::string& name) { return name == "layers.10.w"; };
  size_t seen = 0;
  visit.see = [&](IndexedTensor& tensor) {
    seen += tensor.boxes.size();
    std::erase_if(tensor.boxes, [](const IndexedBox& box) { return box.file == 0; });
  };
  const ShardIndex part = parse_shard_index(text, "index.json", visit);
  CHECK(seen == 2);
  REQUIRE(part.tensors.size() == 3);
  CHECK(part.tensors[2].boxes.size() == 1);
  CHECK(part.tensors[2].shape == Shape{4, 3});
  // Another program may write "files" after "tensors".
  const size_t files = text.find("\"files\""), tensors = text.find("\"tensors\"");
  const size_t end = text.rfind('}');
  const std::string turned = text.substr(0, files) + text.substr(tensors, end - tensors) + "," +
                             text.substr(files, text.rfind(',', tensors) - files) + "}";
  CHECK(to_json_text(parse_shard_index(turned, "i")) == text);
  CHECK(to_json_text(parse_shard_index(turned, "i", visit)) == to_json_text(part));
  // A truncated index is invalid, even if tensors are skipped.
  CHECK_THROWS_WITH(parse_shard_index(turned.substr(0, turned.size() - 2), "i", visit),
                    Catch::Contains("i: byte"));
}

TEST_CASE("names of any kind are kept") {
  ShardIndex index = of_rank(0);
  index.tensors[1].name = "a\"b\\c\n\xc3\xa9";
  CHECK(parse_shard_index(to_json_text(index), "i").tensors[1].name == index.tensors[1].name);
}

TEST_CASE("an index that lies is refused with its tensor") {
  const std::string text = to_json_text(of_rank(0));
  CHECK_THAT(problem_of(text, "automesh-index", "something"), Catch::Contains("not an index"));
  CHECK_THAT(problem_of(text, "\"version\":1", "\"version\":9"), Catch::Contains("version 9"));
  CHECK_THAT(problem_of(text, "__0_0.distcp", "../__0_0"),
             Catch::Contains("not the name of a file"));
  CHECK_THAT(problem_of(text, "float32", "float33"), Catch::Contains("layers.10.w: unknown dtype"));
  CHECK_THAT(problem_of(text, "[4,3]", "[4,2]"), Catch::Contains("beyond the shape of the tensor"));
  CHECK_THAT(problem_of(text, "[0,4096", "[1,4096"),
             Catch::Contains("a part is in file number 1,"));
  CHECK_THAT(problem_of(text, "[0,4096", "[0,9999"), Catch::Contains("beyond the end of its file"));
  CHECK_THAT(problem_of(text, "50,4200", "9000,4200"),
             Catch::Contains("beyond the end of its file"));
  CHECK_THAT(problem_of(text, ",7]", "]"),
             Catch::Contains("it lists 0 checksums for 24 bytes, which need 1"));
  CHECK_THAT(problem_of(text, ",7]", ",7,8]"),
             Catch::Contains("it lists 2 checksums for 24 bytes, which need 1"));
  CHECK_THAT(problem_of(text, ",7]", ",4294967296]"), Catch::Contains("more than 32 bits"));
  CHECK_THAT(problem_of(text, "0,0,2,3,7", "0,0,2"), Catch::Contains("too few numbers"));
  CHECK_THAT(problem_of(text, "[4,3]", "[4611686018427387904,3]"), Catch::Contains("2^63"));
  CHECK(problem_of(text, "\"save\"", "\"later key\":[{}],\"save\"") == "none");
}

TEST_CASE("data files say whose they are") {
  CHECK(label_of(data_file_label("abc", 3) + "more") == data_file_label("abc", 3));
  CHECK(label_of("PK\3\4").empty());
  CHECK(label_of("automesh-checkpoint without an end").empty());
}

}  // namespace am::run_folder
