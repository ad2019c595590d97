// Tests that checksums are equal under any layout, and that `checksum` reports the rank and the
// element in which replicas differ.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <set>

#include "am/tensor/checksum.h"
#include "support/temporary_folder.h"
#include "values/changed_file.h"
#include "values/session_fixture.h"

namespace am::values::test {

using namespace inspect;

namespace {

uint64_t whole_checksum(const at::Tensor& values) {
  const Shape shape = values.sizes().vec();
  return tensor::checksum(values, mesh::Box::whole(shape), shape);
}

// Adds 0.5 to one element of the shard that `rank` stores.
void change_element(Session& session, int64_t rank, const std::string& name, int64_t element) {
  if (session.view().rank() != rank) return;
  const at::NoGradGuard no_grad;
  for (parallel::ParamGroup* group : values_of(session).runnable().groups()) {
    for (const auto& owned : group->owned()) {
      if (owned.name == name) owned.value.view({-1})[element] += 0.5;
    }
  }
}

std::map<std::string, std::string> hashes_of(const Json& answer) {
  std::map<std::string, std::string> hashes;
  for (const Json& each : answer["parameters"]) hashes[each["name"]] = each["hash"];
  return hashes;
}

}  // namespace

TEST_CASE("checksums of parts add up to the whole's, for every dtype", "[inspect]") {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong, at::kByte,
                           at::kBool, at::kFloat8_e4m3fn, at::kComplexFloat, at::kComplexDouble}) {
    INFO(c10::toString(dtype));
    const at::Tensor values = at::arange(5 * 6 * 7, at::TensorOptions(at::kDouble))
                                  .sin()
                                  .abs()
                                  .mul(100)
                                  .reshape({5, 6, 7})
                                  .to(dtype);
    const Shape shape = {5, 6, 7};
    uint64_t sum = 0;
    for (const auto& [from, rows] : {std::pair<int64_t, int64_t>{0, 2}, {2, 3}}) {
      for (const auto& [column, columns] : {std::pair<int64_t, int64_t>{0, 4}, {4, 3}}) {
        sum += tensor::checksum(values.narrow(0, from, rows).narrow(2, column, columns),
                                {{from, 0, column}, {rows, 6, columns}}, shape);
      }
    }
    CHECK(sum == whole_checksum(values));
    CHECK(whole_checksum(values.flip(0)) != whole_checksum(values));
  }
}

TEST_CASE("one flipped bit, exchanged values, signs of zero and shapes change a checksum",
          "[inspect]") {
  const at::Tensor values = at::arange(1000, at::TensorOptions(at::kFloat));
  std::set<uint64_t> sums = {whole_checksum(values)};
  for (const int64_t at : {0, 1, 500, 999}) {
    at::Tensor changed = values.clone();
    changed.view(at::kInt)[at] = changed.view(at::kInt)[at].item<int>() ^ 1;
    sums.insert(whole_checksum(changed));
  }
  at::Tensor exchanged = values.clone();
  exchanged[3] = 4.0;
  exchanged[4] = 3.0;
  sums.insert(whole_checksum(exchanged));
  sums.insert(whole_checksum(at::cat({at::full({1}, -0.0), values.narrow(0, 1, 999)})));
  CHECK(sums.size() == 7);
  CHECK(tensor::checksum_text(1, {2, 3}, at::kFloat) !=
        tensor::checksum_text(1, {3, 2}, at::kFloat));
  CHECK(tensor::checksum_text(1, {2, 3}, at::kInt) != tensor::checksum_text(1, {2, 3}, at::kFloat));
}

TEST_CASE("a checksum does not depend on the layout", "[inspect]") {
  Session at_rest = stored_session(fixture("llama") + kModel);
  const auto expected = hashes_of(json_answer(at_rest, "checksum"));
  CHECK(expected.size() == 21);
  Session in_files = stored_session(fixture("llama-sharded"));
  CHECK(hashes_of(json_answer(in_files, "checksum")) == expected);
  const auto [ranks, mesh, strategy] = GENERATE(
      std::tuple<int64_t, std::string, std::string>{4, "tp_size = 2\ndp_size = 2", kPlainFsdp2},
      std::tuple<int64_t, std::string, std::string>{3, "dp_size = 3", kPlainFsdp2},
      std::tuple<int64_t, std::string, std::string>{2, "dp_size = 2", "name = \"ddp\""});
  const auto outcomes = run_on_ranks(ranks, plan_text("llama", mesh, strategy), {"checksum"});
  REQUIRE(outcomes[0].ok());
  CHECK(hashes_of(outcomes[0].result.json) == expected);
}

TEST_CASE("checksum names the replica that differs and where", "[inspect]") {
  const std::string name = "model.layers.1.mlp.up_proj.weight";  // shape [48, 32]
  const auto outcomes =
      run_on_ranks(3, plan_text("llama", "dp_size = 3", "name = \"ddp\""),
                   {"checksum", "checksum model.layers.0"}, [&](Session& session) {
                     change_element(session, 1, name, 32 * 7 + 5);
                     change_element(session, 1, name, 32 * 40);
                   });
  CHECK_FALSE(outcomes[0].ok());
  CHECK_FALSE(outcomes[0].error);
  for (const Json& each : outcomes[0].result.json["parameters"]) {
    INFO(each["name"]);
    CHECK(each["equal"] == (each["name"] != name));
    CHECK(each["copies"].size() == 3);
    CHECK(each["compared"] == 3);
  }
  CHECK(find_named(outcomes[0].result.json["parameters"], name)["first_difference"] ==
        Json{{"index", {7, 5}}, {"ranks", {1}}, {"against", 0}});
  CHECK_THAT(outcomes[0].result.text, Catch::Contains("1 of 21 tensors differ"));
  CHECK(outcomes[1].ok());
}

TEST_CASE("shards' replicas are compared with their own kind", "[inspect]") {
  const std::string strategy = std::string(kPlainFsdp2);
  const std::string name =
      "model.layers.0.mlp.down_proj.weight";  // shape [32, 48], with 16 rows per shard
  const auto outcomes = run_on_ranks(
      4, plan_text("llama", "dp_size = 4\ndp_replicate_size = 2", strategy), {"checksum"},
      [&](Session& session) { change_element(session, 3, name, 48 * 2 + 1); });
  INFO((outcomes[0].error ? outcomes[0].error->message : ""));
  REQUIRE_FALSE(outcomes[0].error);
  const Json found = find_named(outcomes[0].result.json["parameters"], name);
  CHECK(found["copies"].size() == 4);
  CHECK(found["first_difference"] == Json{{"index", {18, 1}}, {"ranks", {3}}, {"against", 1}});
  int unequal = 0;
  for (const Json& each : outcomes[0].result.json["parameters"]) unequal += each["equal"] ? 0 : 1;
  CHECK(unequal == 1);
}

TEST_CASE("norm weights that tp replicates are compared over tp", "[inspect]") {
  const auto outcomes = run_on_ranks(
      2, plan_text("llama", "tp_size = 2", kPlainFsdp2), {"checksum *norm*", "checksum lm_head"},
      [&](Session& session) { change_element(session, 1, "model.norm.weight", 31); });
  REQUIRE_FALSE(outcomes[0].error);
  const Json found = find_named(outcomes[0].result.json["parameters"], "model.norm.weight");
  CHECK(found["first_difference"]["index"] == Json{31});
  CHECK(outcomes[1].ok());
  CHECK(outcomes[1].result.json["parameters"][0]["compared"] == 0);
}

}  // namespace am::values::test
