// Tests reading checkpoints of training frameworks (scripts/fixtures/make_framework_fixtures.py
// made them). The tensors must equal the saved ones bit by bit, and have Hugging Face's names.
#include <catch2/catch.hpp>
#include <filesystem>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/frameworks/open_weights.h"
#include "am/frameworks/optimizer_settings.h"
#include "am/stored/tensor_source.h"
#include "frameworks/framework_folder.h"

namespace am::frameworks {

namespace fs = std::filesystem;

TEST_CASE("torchtitan's folders have the hub's names and rows") {
  const auto llama = open_tensor_source(kFrameworks / "torchtitan" / "step-2");
  CHECK(llama->format() == "torchtitan");
  CHECK(llama->step() == 2);
  CHECK(llama->config_file().filename() == "config.json");
  CHECK(open_tensor_source(kFrameworks / "torchtitan" / "step-2" / "")->tensors().size() == 21);
  check_expected(*llama, "torchtitan");
  check_boxes(*llama, "model.layers.1.self_attn.q_proj.weight");
  check_boxes(*llama, "optim.state.model.layers.0.self_attn.k_proj.weight.exp_avg");
  const auto values = llama->values();
  CHECK(std::count(values.begin(), values.end(), "dataloader.dp_rank_0") == 1);

  // The bias that balances the load of the experts is not a parameter of the Hugging Face model.
  const auto experts = open_tensor_source(kFrameworks / "torchtitan_moe" / "step-2");
  check_expected(*experts, "torchtitan_moe",
                 {"layers.0.moe.expert_bias", "layers.1.moe.expert_bias"});
  CHECK(experts->note() ==
        "names and rows are converted from torchtitan's to Hugging Face's, using config.json");
  CHECK(experts->tensors().size() == 45);
  check_boxes(*experts, "model.layers.1.mlp.experts.3.down_proj.weight");
}

TEST_CASE("torchtitan's folders without a config, or with another model's") {
  const FrameworkFolder folder(kFrameworks / "torchtitan" / "step-2");
  {
    const auto source = open_tensor_source(folder.path);
    CHECK(source->format() == "torchtitan");
    CHECK(source->find("layers.0.attention.wq.weight") != nullptr);
    CHECK(source->find("optim.state.layers.0.attention.wq.weight.exp_avg") != nullptr);
    CHECK(source->note().find("there is no config.json") != std::string::npos);
    CHECK(source->find("layers.0.attention.wq.weight")->shape[0] == 16);
  }
  std::string config = read_file(kFrameworks / "torchtitan" / "config.json");
  const auto with = [&](const std::string& old, const std::string& text) {
    std::string changed = config;
    const size_t at = changed.find(old);
    REQUIRE(at != std::string::npos);
    write_file_atomically(folder.path / "config.json", changed.replace(at, old.size(), text));
    return open_tensor_source(folder.path)->note();
  };
  CHECK(with("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 1")
            .find("layers.0.attention.wk.weight is [8, 16], but the config requires 4 rows") !=
        std::string::npos);
  CHECK(with("\"llama\"", "\"gpt2\"").find("names and rows are kept as torchtitan's") == 0);
  CHECK(with("\"llama\"", "\"phi\"").find("names and rows are kept as torchtitan's") == 0);
  CHECK(with("\"llama\"", "\"qwen3\"").find("names and rows are converted from ") == 0);
  // With the correct model type, the names are those of Hugging Face.
  CHECK(with("\"llama\"", "\"llama\"").find("names and rows are converted from ") == 0);
}

TEST_CASE("OLMo-core's folders have the hub's names") {
  for (const std::string name : {"olmo", "olmo_llama"}) {
    const fs::path step = kFrameworks / name / "step2";
    for (const fs::path& folder : {step, step / "model_and_optim"}) {
      const auto source = open_tensor_source(folder);
      CHECK(source->format() == "olmo");
      CHECK(source->step() == 2);
      CHECK(source->config_file() == kFrameworks / name / "config.json");
      check_expected(*source, name);
    }
  }
  // The config.json of OLMo-core is not in the format of Hugging Face, so the names stay unchanged.
  const FrameworkFolder folder(kFrameworks / "olmo" / "step2");
  const auto source = open_tensor_source(folder.path);
  CHECK(source->format() == "olmo");
  CHECK(source->find("blocks.1.attention.w_out.weight") != nullptr);
  CHECK(source->note().find("there is no config.json") != std::string::npos);
  CHECK(source->config_file().empty());
}

TEST_CASE("Megatron's folders have the hub's names, rows and layers") {
  for (const std::string name : {"megatron", "megatron_layers", "megatron_experts"}) {
    // Opening a parent folder opens the newest checkpoint in it.
    for (const fs::path& folder : {kFrameworks / name, kFrameworks / name / "iter_0000002"}) {
      const auto source = open_tensor_source(folder);
      CHECK(source->format() == "megatron");
      CHECK(source->step() == 2);
      CHECK(ends_with(source->note(), "the optimizer states are stored as fully_reshardable"));
      check_expected(*source, name);
    }
  }
  const auto stacked = open_tensor_source(kFrameworks / "megatron");
  for (const char* part : {"q_proj.weight", "k_proj.bias", "v_proj.weight"}) {
    check_boxes(*stacked, cat("model.layers.1.self_attn.", part));
    check_boxes(*stacked, cat("optim.state.model.layers.0.self_attn.", part, ".exp_avg"));
  }
  check_boxes(*stacked, "model.layers.1.mlp.up_proj.weight");
  check_boxes(*stacked, "lm_head.weight");

  const auto singleton = open_tensor_source(kFrameworks / "megatron_singleton");
  // These files do not assign the distributed optimizer's buckets to parameters, so the buckets are
  // listed under their own names.
  check_expected(*singleton, "megatron_singleton",
                 {"optim.distributed.dp_group_idx_0.gbuf_idx_0.dtype_(torch.bfloat16, "
                  "torch.float32).bucket_idx_0.exp_avg"});
}

TEST_CASE("Megatron's folders that are not whole, or not read") {
  const FrameworkFolder folder(kFrameworks / "megatron");
  const fs::path step = folder.path / "iter_0000002";
  const auto problem = [&] {
    try {
      open_tensor_source(folder.path);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  write_file_atomically(folder.path / "latest_checkpointed_iteration.txt", "3\n");
  CHECK(problem().find("names iter_0000003, which is not a complete checkpoint") !=
        std::string::npos);
  write_file_atomically(folder.path / "latest_checkpointed_iteration.txt", "../../etc");
  CHECK(problem().find("neither a step number nor \"release\"") != std::string::npos);
  fs::remove(folder.path / "latest_checkpointed_iteration.txt");
  fs::remove(folder.path / "config.json");
  {
    const auto source = open_tensor_source(step);
    CHECK(source->format() == "megatron");
    CHECK(source->find("decoder.layers.self_attention.linear_qkv.weight") != nullptr);
    CHECK(source->note().find("names and rows are kept as Megatron's") == 0);
  }
  // Without metadata.json, the checkpoint is not recognised as Megatron's, but the folder is still
  // a DCP folder of PyTorch.
  fs::remove(step / "metadata.json");
  CHECK(open_tensor_source(step)->format() == "dcp");
  fs::remove(step / ".metadata");
  fs::copy(kFrameworks / "megatron" / "iter_0000002" / "metadata.json", step);
  CHECK_THROWS_WITH(open_tensor_source(step), Catch::Contains("its file .metadata is missing"));
  write_file_atomically(step / "metadata.json",
                        "{\"sharded_backend\": \"zarr\", \"sharded_backend_version\": 1}");
  CHECK_THROWS_WITH(open_tensor_source(step), Catch::Contains("in the format \"zarr\""));
}

TEST_CASE("NeMo AutoModel's folders: the hub's weights in shards, and an optimizer's states") {
  const FrameworkFolder folder(kFrameworks / "automodel" / "epoch_0_step_2");
  {
    const auto source = open_tensor_source(folder.path);
    CHECK(source->format() == "automodel");
    check_expected(*source, "automodel");
    check_boxes(*source, "model.layers.0.mlp.up_proj.weight");
    CHECK(source->note().empty());
    CHECK(source->config_file().filename() == "config.json");
    CHECK(source->find("lm_head.weight")->shards.size() == 2);
  }
  // Opening a parent folder opens the newest checkpoint in it.
  FrameworkFolder all(kFrameworks / "automodel", "all");
  fs::create_directory_symlink("epoch_0_step_2", all.path / "LATEST");
  fs::remove(all.path / "expected.safetensors");
  CHECK(open_tensor_source(all.path)->format() == "automodel");
  write_file_atomically(folder.path / ".incomplete", "");
  CHECK_THROWS_WITH(open_tensor_source(folder.path),
                    Catch::Contains("did not finish this checkpoint"));
}

TEST_CASE("accelerate's folders: a model and its optimizer, each of torch.distributed.checkpoint") {
  const FrameworkFolder folder(kFrameworks / "accelerate" / "checkpoint-2");
  {
    const auto source = open_tensor_source(folder.path);
    CHECK(source->format() == "accelerate");
    check_expected(*source, "accelerate");
    check_boxes(*source, "model.layers.1.self_attn.o_proj.weight");
    check_boxes(*source, "optim.state.model.layers.0.mlp.down_proj.weight.exp_avg_sq");
    CHECK(source->step() == 2);
    CHECK(source->tensors().size() == 21);
    CHECK(source->config_file().empty());
  }
  // The folder now contains config.json, but neither optimizer states nor files of a Trainer.
  fs::remove_all(folder.path / "optimizer_0");
  fs::remove(folder.path / "trainer_state.json");
  fs::copy(kFrameworks / "accelerate" / "config.json", folder.path / "config.json");
  const auto source = open_tensor_source(folder.path);
  CHECK(source->optimizer_tensors().empty());
  CHECK(source->step() == std::nullopt);
  CHECK(source->config_file() == folder.path / "config.json");
}

TEST_CASE("the Trainer's folders: numbered optimizer states get the names of their parameters") {
  const FrameworkFolder folder(kFrameworks / "trainer" / "checkpoint-2");
  const auto source = open_tensor_source(folder.path);
  CHECK(source->format() == "accelerate");
  CHECK(source->step() == 2);
  CHECK(source->note().empty());
  check_expected(*source, "trainer");
  const auto groups = read_settings_groups(*source);
  REQUIRE(groups.size() == 2);
  for (const SettingsGroup& group : groups) {
    const bool vectors = source->find(group.parameters[0])->shape.size() == 1;
    CHECK(formats::number_setting(group.settings, "weight_decay") == (vectors ? 0.0 : 0.1));
    CHECK(formats::number_setting(group.settings, "initial_lr") == 0.01);
    for (const std::string& parameter : group.parameters) {
      CHECK((source->find(parameter)->shape.size() == 1) == vectors);
    }
  }
  CHECK(groups[0].parameters.size() + groups[1].parameters.size() == source->tensors().size());

  // If config.json is that of another family, or has another number of layers, the order of the
  // parameters is not known, and states keep their numbers.
  const std::string config = read_file(folder.path / "config.json");
  const auto note_with = [&](const std::string& old, const std::string& text) {
    std::string changed = config;
    const size_t at = changed.find(old);
    REQUIRE(at != std::string::npos);
    write_file_atomically(folder.path / "config.json", changed.replace(at, old.size(), text));
    const auto numbered = open_tensor_source(folder.path);
    CHECK(numbered->find("optim.state.0.exp_avg") != nullptr);
    return numbered->note();
  };
  CHECK_THAT(note_with("\"model_type\": \"llama\"", "\"model_type\": \"gemma\""),
             Catch::Contains("the order of this model's parameters is not known"));
  CHECK_THAT(note_with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"),
             Catch::Contains("the order of this model's parameters is not known"));
  write_file_atomically(folder.path / "optimizer.pt", "no archive");
  const auto weights = open_tensor_source(folder.path);
  CHECK_THAT(weights->note(), Catch::Contains("optimizer.pt beside the weights cannot be read"));
  REQUIRE(weights->damage().size() == 1);
  CHECK(weights->damage()[0].where == "optimizer.pt");
  CHECK(weights->optimizer_tensors().empty());
  CHECK(weights->tensors().size() == source->tensors().size());
}

TEST_CASE("shards of PyTorch's Hugging Face writer") {
  const FrameworkFolder folder(kFrameworks / "automodel" / "epoch_0_step_2" / "model");
  const fs::path first = folder.path / "shard-00001-model-00001-of-00001.safetensors";
  const fs::path second = folder.path / "shard-00002-model-00001-of-00001.safetensors";
  fs::rename(folder.path / ".hf_metadata" / "config.json", folder.path / "config.json");
  {
    const auto source = open_tensor_source(folder.path);
    CHECK(source->format() == "dcp-huggingface");
    CHECK(source->note().empty());
    CHECK(source->find("lm_head.weight")->shape == Shape{30, 16});
  }
  {
    // torchtitan writes the shards into a folder `sharded` inside the folder of the step.
    const fs::path above = folder.path / "step-3";
    fs::create_directory(above);
    fs::copy(folder.path, above / "sharded");
    CHECK(open_tensor_source(above)->format() == "dcp-huggingface");
    fs::remove_all(above);
  }
  // Shards that an earlier checkpoint left in the folder overlap with this checkpoint's shards.
  fs::copy(second, folder.path / "shard-00003-model-00001-of-00001.safetensors");
  CHECK_THROWS_WITH(open_tensor_source(folder.path), Catch::Contains("overlap"));
  fs::remove(folder.path / "shard-00003-model-00001-of-00001.safetensors");
  // If the last file is missing, only the shapes in config.json reveal the missing rows.
  fs::rename(second, folder.path / "second");
  const std::string why = "is [15, 16] in these files and [30, 16] according to config.json";
  CHECK_THROWS_WITH(open_tensor_source(folder.path), Catch::Contains(why));
  const auto damaged = open_tensor_source(folder.path, stored::OnDamage::kReport);
  REQUIRE_FALSE(damaged->damage().empty());
  CHECK(damaged->damage()[0].what.find(why) != std::string::npos);
  fs::rename(folder.path / "second", second);
  fs::remove(first);
  CHECK_THROWS_AS(open_tensor_source(folder.path), Error);

  std::string bytes = read_file(second);
  const auto spoilt = [&](const std::string& old, const std::string& text) {
    std::string changed = bytes;
    const size_t at = changed.find(old);
    REQUIRE(at != std::string::npos);
    write_file_atomically(second, changed.replace(at, old.size(), text));
    try {
      open_tensor_source(folder.path);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(spoilt("[15, 0]", "[15,-9]").find("a negative or too large offset") != std::string::npos);
  CHECK(spoilt("[15, 0]", "[15   ]").find("must have an offset with one integer for each dim") !=
        std::string::npos);
  CHECK(spoilt("saved_offsets", "saved_offsetz").find("has no entry in") != std::string::npos);
}

TEST_CASE("Megatron-FSDP's folders have the hub's names, gate and up apart") {
  const auto source = open_tensor_source(kFrameworks / "megatron_fsdp" / "iter_0000002");
  CHECK(source->format() == "megatron-fsdp");
  CHECK(source->step() == 2);
  check_expected(*source, "megatron_fsdp");
  check_boxes(*source, "optim.state.model.layers.1.self_attn.k_proj.weight.exp_avg");
}

TEST_CASE("folders that are known and not read say what to do") {
  const FrameworkFolder folder(kFrameworks / "automodel" / "epoch_0_step_2" / "model" /
                               ".hf_metadata");
  const auto refused = [&](const fs::path& path) {
    CHECK(is_tensor_source(path));
    try {
      open_tensor_source(path);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kFormat);
      return error.hint();
    }
    return std::string("none");
  };
  const fs::path megatron = folder.path / "iter_0000005" / "mp_rank_00_000";
  fs::create_directories(megatron);
  write_file_atomically(megatron / "model_optim_rng.pt", "");
  write_file_atomically(folder.path / "latest_checkpointed_iteration.txt", "5");
  CHECK(refused(folder.path).find("--ckpt-format torch_dist") != std::string::npos);
  CHECK(refused(folder.path / "iter_0000005").find("--ckpt-format") != std::string::npos);
  const fs::path deepspeed = folder.path / "deepspeed" / "global_step7";
  fs::create_directories(deepspeed);
  write_file_atomically(folder.path / "deepspeed" / "latest", "global_step7");
  write_file_atomically(deepspeed / "mp_rank_00_model_states.pt", "");
  CHECK(refused(folder.path / "deepspeed").find("zero_to_fp32.py") != std::string::npos);
  CHECK(refused(deepspeed).find("zero_to_fp32.py") != std::string::npos);
}

TEST_CASE("a damaged index is refused, or still says nothing but what is there") {
  for (const std::string name : {"torchtitan/step-2", "megatron/iter_0000002"}) {
    const FrameworkFolder folder(kFrameworks / name);
    fs::copy(kFrameworks / name / ".." / "config.json", folder.path / "config.json");
    const std::string bytes = read_file(folder.path / ".metadata");
    uint64_t state = 7;
    const auto random = [&](size_t below) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<size_t>(state >> 33U) % below;
    };
    for (int round = 0; round < 60; ++round) {
      std::string changed = bytes;
      for (size_t i = 0; i <= random(3); ++i) {
        changed[random(changed.size())] = static_cast<char>(random(256));
      }
      if (round % 10 == 0) changed.resize(random(changed.size()));
      write_file_atomically(folder.path / ".metadata", changed);
      try {
        const auto source = open_tensor_source(folder.path);
        for (const auto* list : {&source->tensors(), &source->optimizer_tensors()}) {
          for (const stored::StoredTensor& each : *list) {
            if (each.numel() < 10000) read_all(*source, each.name);
          }
        }
      } catch (const Error& error) {
        CHECK((error.kind() == ErrorKind::kFormat || error.kind() == ErrorKind::kIo));
      }
    }
  }
}

}  // namespace am::frameworks
