// Tests reading checkpoints whose ranks wrote separate files (scripts/fixtures/
// make_framework_fixtures.py and make_rank_files_fixtures.py made them). All values are compared
// bit by bit with the expected ones.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/frameworks/open_weights.h"
#include "am/stored/tensor_source.h"
#include "frameworks/framework_folder.h"

namespace am::frameworks {

namespace fs = std::filesystem;

TEST_CASE("folders with a file a rank: accelerate without DCP, and torch_checkpointing") {
  struct Kind {
    std::string name, folder, format, model, optimizer;  // the last two: file names up to the rank
    std::string end;
  };
  const Kind kind = GENERATE(
      Kind{"accelerate_ranks", "checkpoint-2", "accelerate", "pytorch_model_fsdp_0_rank",
           "optimizer_0_rank", ".bin"},
      Kind{"torch_checkpointing", "step-2", "torch-checkpointing", "model_", "optimizer_", ".pt"});
  INFO(kind.name);
  const FrameworkFolder folder(kFrameworks / kind.name / kind.folder);
  const auto file = [&](const std::string& begin, int rank) {
    return folder.path / cat(begin, rank, kind.end);
  };
  {
    const auto source = open_tensor_source(folder.path);
    CHECK(source->format() == kind.format);
    check_expected(*source, kind.name);
    // Strided shards (fully_shard over tensor parallelism) and shards of columns.
    check_boxes(*source, "model.layers.1.self_attn.q_proj.weight");
    check_boxes(*source, "model.layers.1.self_attn.o_proj.weight");
    check_boxes(*source, "optim.state.model.layers.0.mlp.down_proj.weight.exp_avg_sq");
    CHECK(source->tensors().size() == 21);
    CHECK(source->optimizer_tensors().size() == 63);
    CHECK(source->find("model.layers.0.self_attn.q_proj.weight")->shards.size() == 4);
    CHECK(source->find("lm_head.weight")->shards.size() == 2);
    CHECK(source->data_files().size() == 8);
  }
  // The file of a single rank is not a complete model.
  CHECK_THROWS_WITH(
      open_tensor_source(file(kind.model, 1)),
      Catch::Contains("this file has the shards of one of 4 ranks: lm_head.weight: "));
  {
    const auto one = open_tensor_source(file(kind.model, 1), stored::OnDamage::kReport);
    REQUIRE(one->damage().size() > 1);
    CHECK(one->damage().front().where == file(kind.model, 1).filename());
    CHECK(one->damage().front().what.find(
              "this file has the shards of one of 4 ranks; open its ") == 0);
  }
  // First an optimizer file is missing, then a model file too.
  fs::remove(file(kind.optimizer, 2));
  CHECK_THROWS_WITH(open_tensor_source(folder.path),
                    Catch::Contains(file(kind.optimizer, 2).string()));
  fs::remove(file(kind.model, 3));
  CHECK_THROWS_AS(open_tensor_source(folder.path), Error);
  const auto source = open_tensor_source(folder.path, stored::OnDamage::kReport);
  const std::vector<stored::StoredProblem> damage = source->damage();
  for (const fs::path& gone : {file(kind.model, 3), file(kind.optimizer, 2)}) {
    CHECK(std::any_of(damage.begin(), damage.end(), [&](const stored::StoredProblem& problem) {
      return problem.where == gone.filename();
    }));
  }
  // The file of rank 1 also contains the rows of lm_head.weight that are in the missing file.
  CHECK_NOTHROW(read_all(*source, "lm_head.weight"));
  CHECK_THROWS_AS(read_all(*source, "model.layers.0.self_attn.q_proj.weight"), Error);
  // A copy of an optimizer file replaces the missing model file.
  fs::copy_file(file(kind.optimizer, 0), file(kind.model, 3));
  CHECK_THROWS_AS(open_tensor_source(folder.path), Error);
}

TEST_CASE("metadata of torch_checkpointing that lies") {
  const FrameworkFolder folder(kFrameworks / "torch_checkpointing" / "step-2");
  const fs::path file = folder.path / "metadata.pkl";
  const std::string whole = read_file(file);
  const auto with = [&](const std::string& old, const std::string& now) {
    std::string text = whole;
    for (size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + 1)) {
      text.replace(at, old.size(), now);
    }
    write_file_atomically(file, text);
  };
  with("DTensorShardingMetadata", "DTensorShardingMetadatb");
  CHECK_THROWS_WITH(open_tensor_source(folder.path),
                    Catch::Contains("unknown kind of sharding: DTensorShardingMetadatb"));
  with("world_size", "world_sizf");
  CHECK_THROWS_WITH(open_tensor_source(folder.path), Catch::Contains("world_size"));
  with("2.0", "3.0");
  CHECK_THROWS_WITH(open_tensor_source(folder.path), Catch::Contains("version"));
  write_file_atomically(file, whole.substr(0, whole.size() / 2));
  CHECK_THROWS_AS(open_tensor_source(folder.path), Error);
  using std::string_literals::operator""s;
  write_file_atomically(file,
                        "\x80\x02"
                        "cos\nsystem\nX\x04\0\0\0true\x85R."s);
  CHECK_THROWS_WITH(open_tensor_source(folder.path), Catch::Contains("os.system"));
  fs::remove(file);  // metadata.pkl is optional
  CHECK(open_tensor_source(folder.path)->tensors().size() == 21);
  fs::remove(folder.path / "model_3.pt");
  CHECK_THROWS_WITH(open_tensor_source(folder.path),
                    Catch::Contains("model_3.pt: the file is missing, but 4 ranks"));
}

TEST_CASE("uneven parts of ranks: dims of 5, strided shards, another order of cuts") {
  const FrameworkFolder folder(kFrameworks / "accelerate_uneven" / "checkpoint-7");
  {
    const auto source = open_tensor_source(folder.path);
    CHECK(source->format() == "accelerate");
    check_expected(*source, "accelerate_uneven");
    for (const char* name : {"rows.weight", "both.weight", "strided.weight", "order.weight"}) {
      check_boxes(*source, name);
    }
    const auto rows = [&](const std::string& name) {
      std::vector<std::vector<int64_t>> found;  // rank, first row, number of rows
      for (const stored::StoredShard& shard : source->find(name)->shards) {
        found.push_back({shard.rank, shard.box.offset.front(), shard.box.shape.front()});
      }
      return found;
    };
    using Rows = std::vector<std::vector<int64_t>>;
    CHECK(rows("rows.weight") == Rows{{0, 0, 2}, {1, 2, 2}, {2, 4, 1}});
    CHECK(rows("nested.weight") == Rows{{0, 0, 2}, {1, 2, 1}, {2, 3, 1}, {3, 4, 1}});
    CHECK(rows("strided.bias") == Rows{{0, 0, 2}, {1, 3, 1}, {2, 2, 1}, {3, 4, 1}});
    CHECK(rows("order.weight") == rows("strided.bias"));
    CHECK(rows("few.bias") == Rows{{0, 0, 1}, {1, 1, 1}});
  }
  // The pickle of rank 2 now names a class whose construction could run commands.
  const fs::path file = folder.path / "pytorch_model_fsdp_0_rank2.bin";
  std::string text = read_file(file);
  const std::string mesh = "torch.distributed.device_mesh";
  text.replace(text.find(mesh), mesh.size(), "multiprocessing.reduction.abc");
  write_file_atomically(file, text);
  CHECK_THROWS_WITH(open_tensor_source(folder.path),
                    Catch::Contains("rank2.bin: ") &&
                        Catch::Contains("multiprocessing.reduction.abc.DeviceMesh"));
  text = read_file(folder.path / "pytorch_model_fsdp_0_rank1.bin");
  const std::string spec = "torch.distributed.tensor._dtensor_spec\nTensorMeta\n";
  text.replace(text.find(spec), spec.size(),
               "torch.distributed._shard.abcdefghij\nShardedTensor\n");
  write_file_atomically(file, text);
  CHECK_THROWS_WITH(
      open_tensor_source(folder.path),
      Catch::Contains("rank2.bin: the file has sharded tensors of FSDP1, which are not"));
  fs::remove(file);
  CHECK_THROWS_WITH(open_tensor_source(folder.path),
                    Catch::Contains("rank2.bin: the file is missing, but 4 ranks wrote"));
}

TEST_CASE("torch_checkpointing's boxes of ranks, replicas and files of other names") {
  const FrameworkFolder folder(kFrameworks / "torch_checkpointing_parts" / "latest");
  const auto check = [&] {
    const auto source = open_tensor_source(folder.path);
    CHECK(source->format() == "torch-checkpointing");
    CHECK(source->step() == 7);
    check_expected(*source, "torch_checkpointing_parts");
    check_boxes(*source, "parts.weight");
    CHECK(source->find("parts.weight")->shards.size() == 7);
    CHECK(source->find("replica.bias")->shards.size() == 1);
    CHECK(source->optimizer_tensors().size() == 1);
    return source->file_of(*source->find("parts.weight"), 2);
  };
  CHECK(check() == folder.path / "rank_1" / "weights.pt");
  fs::copy_file(kFrameworks / "torch_checkpointing_parts" / "metadata-1.0.pkl",
                folder.path / "metadata.pkl", fs::copy_options::overwrite_existing);
  check();
  CHECK_THROWS_WITH(
      open_tensor_source(folder.path / "rank_1" / "weights.pt"),
      Catch::Contains(
          "parts.weight: this is a shard of a tensor, and the file lacks its position"));
}

TEST_CASE("places that metadata of torch_checkpointing invents") {
  const FrameworkFolder folder(kFrameworks / "torch_checkpointing_parts" / "latest");
  const fs::path file = folder.path / "metadata.pkl";
  const std::string whole = read_file(file);
  const auto list = [](int first, int second) {  // pickle opcodes of the list [first, second]
    return std::string("]\x94(K") + static_cast<char>(first) + "K" + static_cast<char>(second) +
           "e";
  };
  // Writes metadata.pkl with `now` in place of `old`: in place of the occurrence `number` (from 0),
  // or of all occurrences if `number` is -1.
  const auto with = [&](const std::string& old, const std::string& now, int number = -1) {
    std::string text = whole;
    int seen = 0;
    for (size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + 1)) {
      if (number < 0 || number == seen) text.replace(at, old.size(), now);
      ++seen;
    }
    REQUIRE(seen > number);
    write_file_atomically(file, text);
  };
  const auto refused = [&](const std::string& why) {
    CHECK_THROWS_WITH(open_tensor_source(folder.path), Catch::Contains(why));
  };
  with("rank_1/weights.pt", "../k_1/weights.pt");
  refused("model's file \"../k_1/weights.pt\" is not inside the checkpoint's folder");
  with("rank_1/weights.pt", "/ank_1/weights.pt");
  refused("is not inside the checkpoint's folder");
  with("rank_1/weights.pt", "rank_0/weights.pt");
  refused("two items are stored in the same file, rank_0/weights.pt");
  with("rank_1/weights.pt", "rank_7/weights.pt");
  refused("rank_7/weights.pt");
  with("TorchSerialization", "OtherSerialization");
  refused("model is stored by OtherSerialization, not torch.save");
  with("default_tensor_v1", "default_tensor_v2");
  refused("unknown kind of sharding: default_tensor_v2");
  with(list(9, 4), list(10, 4));
  refused("parts.weight: its parts have 36 of its 40 elements");
  with(list(9, 4), list(10, 4), 0);
  refused("parts.weight has a different shape or dtype");
  with(list(9, 4), list(8, 4));
  refused("a part of a tensor reaches beyond its shape");
  with(list(3, 0), list(2, 0), 1);  // moves row 3, of rank 3, to offset 2
  refused("parts.weight: ");
  with(list(2, 4), list(4, 4));
  refused("a part of a tensor reaches beyond its shape");
  with(list(1, 0), list(2, 0), 1);  // moves rank 2's rows by one row in rank 2's file
  refused("parts.weight: this part of the tensor does not match the folder's metadata");
  with(list(5, 3), list(6, 3));
  refused("rows.weight: this part of the tensor does not match the folder's metadata");
  with("torch.float32", "torch.float64");
  refused("this part of the tensor does not match the folder's metadata");
  with("torch.float32", "numpy.float32");
  refused("a tensor's dtype is not a dtype of torch");
  with("StridedShard", "StrippdShard");
  refused("unknown kind of placement: StrippdShard");
  write_file_atomically(file, whole);
  CHECK_NOTHROW(open_tensor_source(folder.path));
}

}  // namespace am::frameworks
