#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/config/plan.h"
#include "am/config/recomputation.h"

using namespace am;
using namespace am::config;

namespace {

std::optional<Plan> parse_strategy(const std::string& strategy, Diagnostics& found) {
  return parse_plan("model.path = \"m\"\n[strategy]\n" + strategy, "p.toml", {}, found);
}

template <typename Config>
Config strategy_of(const std::string& strategy) {
  Diagnostics found;
  const auto plan = parse_strategy(strategy, found);
  for (const Diagnostic& each : found.items()) UNSCOPED_INFO(each.message);
  REQUIRE(plan);
  CHECK(found.empty());
  return std::get<Config>(plan->strategy);
}

Diagnostic error_of_strategy(const std::string& strategy) {
  Diagnostics found;
  CHECK_FALSE(parse_strategy(strategy, found));
  REQUIRE(found.items().size() == 1);
  return found.items()[0];
}

}  // namespace

TEST_CASE("the name chooses the configuration, wherever it stands") {
  CHECK(strategy_of<DDPConfig>("bucket_cap_mb = 5\nname = \"ddp\"").bucket_cap_mb == 5);
  CHECK(strategy_of<MegatronFSDPConfig>("name = \"megatron_fsdp\"").zero_dp_strategy == 3);
  CHECK(strategy_of<MegatronFSDPConfig>("name = \"megatron-fsdp\"").overlap_param_gather);
  strategy_of<FSDP2Config>("");
}

TEST_CASE("a key of another strategy says whose it is") {
  Diagnostic error = error_of_strategy("bucket_cap_mb = 3");
  CHECK(error.rule == "plan.key");
  CHECK(error.message ==
        "\"bucket_cap_mb\" is a key of strategy ddp; the strategy of this plan is fsdp2");
  CHECK(error.help == "remove it, or set strategy.name = \"ddp\"");
  error = error_of_strategy("name = \"ddp\"\nsequence_parallel = true");
  CHECK(
      error.message ==
      "\"sequence_parallel\" is a key of strategy fsdp2 and megatron; the strategy of this plan is "
      "ddp");
  CHECK(error_of_strategy("name = \"ddp\"\nbukket_cap_mb = 3").help ==
        "did you mean \"bucket_cap_mb\"?");
}

TEST_CASE("a name that is unknown is the only error it causes") {
  const Diagnostic error = error_of_strategy("name = \"fsdp\"\nbucket_cap_mb = 3\nmp_policy = 7\n");
  CHECK(error.rule == "plan.value");
  CHECK(error.help ==
        "did you mean \"fsdp2\"? legal: \"fsdp2\", \"megatron_fsdp\", \"ddp\" or "
        "\"megatron\"");
  CHECK(error_of_strategy("name = 3").rule == "plan.type");
}

TEST_CASE("zero_dp_strategy takes numbers and Megatron's names") {
  const auto level = [](const std::string& text) {
    return strategy_of<MegatronFSDPConfig>("name = \"megatron_fsdp\"\nzero_dp_strategy = " + text)
        .zero_dp_strategy;
  };
  CHECK(level("0") == 0);
  CHECK(level("\"no_shard\"") == 0);
  CHECK(level("\"optim\"") == 1);
  CHECK(level("\"optim_grads\"") == 2);
  CHECK(level("\"optim_grads_params\"") == 3);
  CHECK(error_of_strategy("name = \"megatron_fsdp\"\nzero_dp_strategy = \"optin\"")
            .help.find("did you mean \"optim\"?") == 0);
}

TEST_CASE("activation_checkpointing takes what AutoModel takes") {
  const auto of = [](const std::string& text) {
    return strategy_of<FSDP2Config>("activation_checkpointing = " + text).activation_checkpointing;
  };
  CHECK(of("false") == ActivationCheckpointing::kOff);
  CHECK(of("true") == ActivationCheckpointing::kFull);
  CHECK(of("\"full\"") == ActivationCheckpointing::kFull);
  CHECK(of("\"selective\"") == ActivationCheckpointing::kSelective);
  CHECK(of("\"mlp\"") == ActivationCheckpointing::kMlp);
  CHECK(error_of_strategy("activation_checkpointing = \"some\"").rule == "plan.value");
  CHECK(error_of_strategy("activation_checkpointing = 1").rule == "plan.type");
  // Megatron-FSDP checkpoints whole layers or none.
  CHECK(error_of_strategy("name = \"megatron_fsdp\"\nactivation_checkpointing = \"full\"").rule ==
        "plan.type");
}

TEST_CASE("reshard_after_forward takes true, false and a number of ranks") {
  const auto of = [](const std::string& text) {
    return strategy_of<FSDP2Config>("reshard_after_forward = " + text).reshard_after_forward;
  };
  CHECK(std::get<bool>(*of("true")));
  CHECK_FALSE(std::get<bool>(*of("false")));
  CHECK(std::get<int64_t>(*of("8")) == 8);
  CHECK(error_of_strategy("reshard_after_forward = 0").help.find("write false") == 0);
  CHECK(error_of_strategy("reshard_after_forward = -1").rule == "plan.range");
  CHECK(error_of_strategy("reshard_after_forward = \"yes\"").rule == "plan.type");
}

TEST_CASE("tp_plan takes text or a table, whose order is kept") {
  CHECK(strategy_of<FSDP2Config>("").tp_plan.text == "auto");
  CHECK(strategy_of<FSDP2Config>("tp_plan = \"libmine.so:plan\"").tp_plan.text ==
        "libmine.so:plan");
  using Table = std::vector<std::pair<std::string, std::string>>;
  const Table table =
      strategy_of<FSDP2Config>("tp_plan = { \"z.*\" = \"colwise\", a = \"rowwise\" }")
          .tp_plan.table;
  CHECK(table == Table{{"z.*", "colwise"}, {"a", "rowwise"}});
  // In TOML, an unquoted dotted key makes nested tables. automesh still reads the key as one
  // pattern.
  CHECK(
      strategy_of<FSDP2Config>("tp_plan = { model.norm = \"sequence_parallel\" }").tp_plan.table ==
      Table{{"model.norm", "sequence_parallel"}});
  CHECK(strategy_of<FSDP2Config>("[strategy.tp_plan]\nlm_head = \"colwise_rep\"").tp_plan.table ==
        Table{{"lm_head", "colwise_rep"}});
  CHECK(error_of_strategy("tp_plan = { a = 3 }").message ==
        "strategy.tp_plan.a is an integer, not text in quotes");
  CHECK(error_of_strategy("tp_plan = true").rule == "plan.type");
  CHECK(error_of_strategy("tp_plan = \"\"").rule == "plan.value");
}

TEST_CASE("keys of the inline tables are checked") {
  CHECK(error_of_strategy("mp_policy = { param_dtyp = \"float32\" }").help ==
        "did you mean \"param_dtype\"?");
  CHECK(error_of_strategy("mp_policy = { param_dtype = \"int8\" }").rule == "plan.value");
  CHECK(error_of_strategy("offload_policy = { pinned = true }").rule == "plan.key");
  CHECK(error_of_strategy("offload_policy = true").rule == "plan.type");
}

TEST_CASE("asynchronous tensor parallelism forces sequence_parallel, with a warning") {
  Diagnostics found;
  const auto plan =
      parse_strategy("enable_async_tensor_parallel = true\nsequence_parallel = false", found);
  REQUIRE(plan);
  CHECK(std::get<FSDP2Config>(plan->strategy).sequence_parallel);
  REQUIRE(found.items().size() == 1);
  CHECK(found.items()[0].severity == Severity::kWarning);
  CHECK(found.items()[0].span.line == 3);
  strategy_of<FSDP2Config>("enable_async_tensor_parallel = true\nsequence_parallel = true");
}

TEST_CASE("to_dict has every key of the configuration and no other") {
  const Json ddp = to_dict(DDPConfig{});
  CHECK(
      dump_json(ddp, -1) ==
      R"({"activation_checkpointing":false,"backend":null,"autocast_dtype":null,"bucket_cap_mb":25,)"
      R"("gradient_as_bucket_view":false,"static_graph":false,"broadcast_buffers":false,)"
      R"("find_unused_parameters":false,"fp8":"none"})");
  const Json fsdp2 = to_dict(FSDP2Config{});
  CHECK(fsdp2.size() == 19);
  CHECK(fsdp2["mp_policy"]["reduce_dtype"] == "float32");
  CHECK(fsdp2["reshard_after_forward"].is_null());
  CHECK(to_dict(MegatronFSDPConfig{}).size() == 18);
}

TEST_CASE("ddp has autocast, and fsdp2's modes of checkpointing") {
  const auto config = strategy_of<DDPConfig>(
      "name = \"ddp\"\nautocast_dtype = \"bf16\"\nactivation_checkpointing = \"selective\"");
  CHECK(config.autocast_dtype == "bfloat16");
  CHECK(config.activation_checkpointing == ActivationCheckpointing::kSelective);
  CHECK(strategy_of<DDPConfig>("name = \"ddp\"\nactivation_checkpointing = true")
            .activation_checkpointing == ActivationCheckpointing::kFull);
}

TEST_CASE("megatron: defaults, and the modes that keys of recomputation imply") {
  const auto of = [](const std::string& keys) {
    return strategy_of<MegatronConfig>("name = \"megatron\"\n" + keys);
  };
  const MegatronConfig plain = of("");
  CHECK(plain.zero == 1);
  CHECK(plain.params_dtype == "bfloat16");
  CHECK(plain.grad_reduce_in_fp32);
  CHECK(plain.expert_tp(/*tp_size=*/4) == 4);
  CHECK(plain.activation_checkpointing == ActivationCheckpointing::kOff);
  CHECK(of("etp_size = 1").expert_tp(4) == 1);
  CHECK(of("params_dtype = \"bf16\"").params_dtype == "bfloat16");
  CHECK(of("recompute_modules = [\"core_attn\", \"moe_act\"]").activation_checkpointing ==
        ActivationCheckpointing::kSelective);
  CHECK(of("recompute_num_layers = 2").activation_checkpointing == ActivationCheckpointing::kFull);
  CHECK(of("recompute_num_layers = 2\nactivation_checkpointing = false").activation_checkpointing ==
        ActivationCheckpointing::kOff);
  CHECK(to_dict(MegatronConfig{}).size() == 14);
  CHECK(recomputed_modules({}) == RecomputedModules{.core_attn = true});
  CHECK(recomputed_modules({"mlp", "moe_act"}) == RecomputedModules{.mlp = true, .moe_act = true});
}

TEST_CASE("megatron: an illegal value names the legal ones") {
  const auto error = [](const std::string& keys) {
    return error_of_strategy("name = \"megatron\"\n" + keys);
  };
  CHECK(error("zero = 3").rule == "plan.range");
  CHECK(error("zero = 3").help.find("0 to 2") != std::string::npos);
  CHECK(error("recompute_modules = [\"core_atn\"]").help.find("did you mean \"core_attn\"?") == 0);
  CHECK(error("activation_offload_fraction = 1.5").help == "legal: number from 0 to 1");
  CHECK(error("recompute_method = \"some\"").help.find("\"uniform\" or \"block\"") !=
        std::string::npos);
  CHECK(error("expert_tensor_parallel_size = 2").help ==
        "it is called etp_size here, in [strategy]");
  CHECK(error("zero_dp_strategy = 1").message.find("is a key of strategy megatron_fsdp") !=
        std::string::npos);
}

TEST_CASE("megatron: predictions are Megatron's unless the plan names another implementation") {
  Diagnostics found;
  const auto plan = parse_strategy("name = \"megatron\"", found);
  REQUIRE(plan);
  CHECK(plan->cluster.implementation == "megatron");
  const auto nemo =
      parse_strategy("name = \"megatron\"\n[cluster]\nimplementation = \"nemo\"", found);
  REQUIRE(nemo);
  CHECK(nemo->cluster.implementation == "nemo");
  CHECK(strategy_of<FSDP2Config>("").fp8 == Fp8Recipe::kNone);
}

TEST_CASE("strategy names go with their configurations") {
  for (const std::string& name : strategy_names()) {
    CHECK(name == strategy_name(default_strategy(name)));
  }
}
