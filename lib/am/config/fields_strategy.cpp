// Defines the keys of the plan file's section [strategy]. Except for strategy.name, each key has
// the name of a member of FSDP2Config, MegatronFSDPConfig, DDPConfig or MegatronConfig.
#include "am/base/file.h"
#include "am/config/field_builder.h"
#include "am/config/recomputation.h"
#include "am/config/strategy_codec.h"

namespace am::config {
namespace {

Optional<Choice> backend() { return {Choice{{"gloo", "nccl", "cuda:gloo"}}}; }

constexpr const char* kBackendHelp =
    "Library of the collectives. gloo: ranks compute on the host; nccl: on GPUs; cuda:gloo: on "
    "GPUs with messages through host memory, so that several ranks can share a GPU. Absent: nccl "
    "if a GPU is present, else gloo.";
constexpr const char* kCheckpointingHelp =
    "Keep only the inputs of each layer for backward, and recompute the rest.";
constexpr const char* kAutocastHelp =
    "Run the forward under autocast: matrix products and attention in this dtype, norms, softmax "
    "and loss in float32. Absent: no autocast.";
constexpr const char* kSelectiveHelp =
    "true or \"full\": keep only the inputs of each layer for backward, and recompute the rest. "
    "\"selective\": also keep attention and its inputs, the residual sum after it and the output "
    "of the gate projection. \"mlp\": recompute only the feed-forward.";

constexpr const char* kFp8Help =
    "Recipe for matrix products in FP8. tensorwise and rowwise are torchao's, with one scale per "
    "tensor, or per row and column; am-run applies them to the linear modules of attention and of "
    "dense feed-forwards whose sizes are multiples of 16. delayed, block, mxfp8 and nvfp4 (4 bits) "
    "are Transformer Engine's, which am-plan predicts; they apply to experts too. GPUs need FP8 "
    "units (Ada, Hopper and later); the host rounds to FP8 and multiplies in float32.";
constexpr const char* kMegatronFp8Help =
    "Recipe of Transformer Engine for matrix products in FP8, experts included: delayed and "
    "tensorwise have one scale per tensor, block one per 128 values, mxfp8 one per 32. nvfp4 "
    "multiplies in 4 bits. mxfp8 and nvfp4 need Blackwell.";

void add_fsdp2(std::vector<FieldSpec>& out) {
  FieldBuilder fsdp2(
      "strategy", [](auto& plan) -> auto& { return std::get<FSDP2Config>(plan.strategy); }, out);
  fsdp2.of_strategy("fsdp2");
  using S = FSDP2Config;
  fsdp2.add("sequence_parallel", &S::sequence_parallel, Boolean{},
            "Cut activations over tp along the sequence between the tensor parallel layers.");
  fsdp2
      .add("tp_plan", &S::tp_plan, TpPlanCodec{},
           "How each module is cut over tp: auto uses the model family's own plan; or a table "
           "pattern = style, a TOML file with such a table, a registered plan, or "
           "libmine.so:symbol.")
      .is_path = looks_like_path;
  fsdp2.add("patch_is_packed_sequence", &S::patch_is_packed_sequence, Boolean{},
            "Treat every batch as not packed: attention crosses document boundaries even where "
            "position ids restart. false: the position ids of each batch are inspected, and "
            "attention stays inside each document.");
  fsdp2.add("mp_policy", &S::mp_policy, MixedPrecisionCodec{},
            "Mixed precision: dtypes of gathered parameters, of gradient reduction and of the "
            "model's output. \"none\": parameters as stored, gradients as the parameters, outputs "
            "as computed. cast_forward_inputs casts each unit's inputs to param_dtype.");
  fsdp2.add("offload_policy", &S::offload_policy, Optional<OffloadCodec>{},
            "Keep sharded parameters, gradients and optimizer states in CPU memory. Absent: no.");
  fsdp2.add("autocast_dtype", &S::autocast_dtype, Optional<Choice>{dtype_choice()}, kAutocastHelp);
  fsdp2.add("activation_checkpointing", &S::activation_checkpointing, CheckpointingCodec{},
            kSelectiveHelp);
  fsdp2
      .add("activation_checkpointing_every", &S::activation_checkpointing_every,
           Integer{1, 1 << 20},
           "Checkpoint only every n-th layer: the last of each n layers. torchtitan's "
           "selective_ac_option = \"n\", OLMo-core's block_interval.")
      .also = {"block_interval", "selective_ac_option"};
  fsdp2.add("defer_fsdp_grad_sync", &S::defer_fsdp_grad_sync, Boolean{},
            "With gradient accumulation, reduce gradients at the last micro-batch only.");
  fsdp2.add("backend", &S::backend, backend(), kBackendHelp);
  fsdp2.add(
      "reshard_after_forward", &S::reshard_after_forward, Optional<ReshardCodec>{},
      "Free gathered parameters after forward. Absent: true for all units but the last layer, "
      "the head and the root, and false in a pipeline; a number: reshard to groups of this "
      "many ranks.");
  fsdp2.add(
      "enable_async_tensor_parallel", &S::enable_async_tensor_parallel, Boolean{},
      "Overlap tensor parallel collectives with matrix products. It turns sequence_parallel on.");
  fsdp2.add(
      "enable_compile", &S::enable_compile, Boolean{},
      "Compile each layer. am-run accepts the key with a note: it has no compiler, and always "
      "runs fused operators.");
  fsdp2.add("enable_fsdp2_prefetch", &S::enable_fsdp2_prefetch, Boolean{},
            "Gather the parameters of coming units while this one computes.");
  fsdp2.add("fsdp2_backward_prefetch_depth", &S::fsdp2_backward_prefetch_depth, Integer{0, 64},
            "Units to gather ahead in backward.");
  fsdp2.add("fsdp2_forward_prefetch_depth", &S::fsdp2_forward_prefetch_depth, Integer{0, 64},
            "Units to gather ahead in forward.");
  fsdp2
      .add("shard_placement", &S::shard_placement, PlacementCodec{},
           "Table glob = dimension: FSDP cuts the matching parameters on this dimension, and all "
           "others on dimension 0.")
      .also = {"shard_placement_fn"};
  fsdp2.add("ignored_params", &S::ignored_params, Texts{},
            "Parameters that FSDP leaves whole on every data parallel rank, as globs over their "
            "names. Their gradients are summed over those ranks.");
  fsdp2.add("fp8", &S::fp8, Fp8Codec{}, kFp8Help);
}

void add_megatron_fsdp(std::vector<FieldSpec>& out) {
  FieldBuilder megatron(
      "strategy", [](auto& plan) -> auto& { return std::get<MegatronFSDPConfig>(plan.strategy); },
      out);
  megatron.of_strategy("megatron_fsdp");
  using S = MegatronFSDPConfig;
  const auto flag = [&](const char* key, bool S::*member, const char* help) {
    megatron.add(key, member, Boolean{}, help);
  };
  megatron.add(
      "megatron_fsdp_unit_modules", &S::megatron_fsdp_unit_modules, Texts{},
      "Classes of the modules that are sharded as units. Empty: the family's decoder layer.");
  megatron.add("zero_dp_strategy", &S::zero_dp_strategy, ZeroLevelCodec{},
               "State that is sharded over dp: 0 none, 1 optimizer states, 2 also gradients, 3 "
               "also parameters.");
  flag("init_fsdp_with_meta_device", &S::init_fsdp_with_meta_device,
       "Build the model on the meta device, and initialise each shard on its own rank.");
  flag("grad_reduce_in_fp32", &S::grad_reduce_in_fp32, "Reduce gradients in float32.");
  flag("preserve_fp32_weights", &S::preserve_fp32_weights,
       "Keep a float32 copy of the parameters for the optimizer.");
  flag("overlap_grad_reduce", &S::overlap_grad_reduce, "Reduce gradients while backward runs.");
  flag("overlap_param_gather", &S::overlap_param_gather,
       "Gather the next unit's parameters while this one computes.");
  flag("check_for_nan_in_grad", &S::check_for_nan_in_grad,
       "Stop with the parameter's name when a gradient is not finite. Off under a loss scale.");
  flag("report_nan_in_param_grad", &S::report_nan_in_param_grad,
       "Stop with the parameter's name and the rank when a rank's own gradient is not finite, "
       "before gradients are reduced. Off under a loss scale. A GPU must synchronise with the host "
       "for each gradient.");
  flag("average_in_collective", &S::average_in_collective,
       "Average gradients in the collective, instead of scaling them before it.");
  flag("disable_bucketing", &S::disable_bucketing,
       "One collective for all parameters, instead of one for each unit.");
  flag("calculate_per_token_loss", &S::calculate_per_token_loss,
       "Divide gradients by the number of labels instead of the number of ranks.");
  flag("keep_fp8_transpose_cache", &S::keep_fp8_transpose_cache,
       "Keep the transposes of FP8 parameters.");
  flag("nccl_ub", &S::nccl_ub, "Register communication buffers with NCCL.");
  flag("fsdp_double_buffer", &S::fsdp_double_buffer,
       "Two fixed communication buffers instead of one allocation per unit.");
  flag("activation_checkpointing", &S::activation_checkpointing, kCheckpointingHelp);
  megatron.add("backend", &S::backend, backend(), kBackendHelp);
  megatron.add("fp8", &S::fp8, Fp8Codec{}, kFp8Help);
}

void add_ddp(std::vector<FieldSpec>& out) {
  FieldBuilder ddp(
      "strategy", [](auto& plan) -> auto& { return std::get<DDPConfig>(plan.strategy); }, out);
  ddp.of_strategy("ddp");
  using S = DDPConfig;
  ddp.add("activation_checkpointing", &S::activation_checkpointing, CheckpointingCodec{},
          kSelectiveHelp);
  ddp.add("backend", &S::backend, backend(), kBackendHelp);
  ddp.add("autocast_dtype", &S::autocast_dtype, Optional<Choice>{dtype_choice()}, kAutocastHelp);
  ddp.add("bucket_cap_mb", &S::bucket_cap_mb, Integer{1, 1 << 20},
          "Size in MiB of the buckets in which gradients are reduced; the first bucket has 1 MiB.");
  ddp.add("gradient_as_bucket_view", &S::gradient_as_bucket_view, Boolean{},
          "Gradients are views of the buckets, without a copy.");
  ddp.add("static_graph", &S::static_graph, Boolean{},
          "Assume that the same parameters get gradients in the same order at every step.");
  ddp.add("broadcast_buffers", &S::broadcast_buffers, Boolean{},
          "Broadcast buffers from rank 0 before each forward.");
  ddp.add(
      "find_unused_parameters", &S::find_unused_parameters, Boolean{},
      "Find parameters that a step did not use, so that ranks do not wait for their gradients.");
  ddp.add("fp8", &S::fp8, Fp8Codec{}, kFp8Help);
}

void add_megatron(std::vector<FieldSpec>& out) {
  FieldBuilder megatron(
      "strategy", [](auto& plan) -> auto& { return std::get<MegatronConfig>(plan.strategy); }, out);
  megatron.of_strategy("megatron");
  using S = MegatronConfig;
  const auto modules = recompute_module_names();
  megatron.add(
      "zero", &S::zero, Integer{0, 2},
      "State that the distributed optimizer shards over dp: 0 none, 1 optimizer states, 2 "
      "also gradients. mesh.dp_replicate_size is the number of the optimizer's instances.");
  megatron
      .add("etp_size", &S::etp_size, Integer{0, 1 << 20},
           "Tensor parallel ranks of each expert. 0: tp_size.")
      .also = {"expert_tensor_parallel_size", "expert_tp_size"};
  megatron.add("sequence_parallel", &S::sequence_parallel, Boolean{},
               "Cut activations over tp along the sequence between the tensor parallel layers.");
  megatron.add("params_dtype", &S::params_dtype, dtype_choice(),
               "Dtype of the parameters in forward and backward. If it has 16 bits, the optimizer "
               "keeps a float32 copy of the parameters.");
  megatron.add("grad_reduce_in_fp32", &S::grad_reduce_in_fp32, Boolean{},
               "Accumulate and reduce gradients in float32. false: in params_dtype.");
  megatron.add("overlap_grad_reduce", &S::overlap_grad_reduce, Boolean{},
               "Reduce gradients while backward runs.");
  megatron.add("overlap_param_gather", &S::overlap_param_gather, Boolean{},
               "Gather updated parameters while the next forward runs.");
  megatron.add("activation_checkpointing", &S::activation_checkpointing, CheckpointingCodec{},
               "true or \"full\": keep only the inputs of layers for backward, and recompute the "
               "rest. \"selective\": recompute recompute_modules. Absent: as recompute_modules or "
               "recompute_num_layers need, else false.");
  megatron.add("recompute_modules", &S::recompute_modules,
               Choices{{{modules.begin(), modules.end()}}},
               "Modules that \"selective\" recomputes in every layer. Empty: core_attn.");
  megatron.add("recompute_num_layers", &S::recompute_num_layers, Integer{0, 1 << 20},
               "Layers that \"full\" recomputes: with recompute_method = \"block\" the first n of "
               "each stage; with \"uniform\" all layers, of which each n consecutive ones keep one "
               "input. 0: each layer keeps its own input.");
  megatron.add("recompute_method", &S::recompute_method, Choice{{"uniform", "block"}},
               "How recompute_num_layers counts.");
  megatron
      .add("activation_offload_fraction", &S::activation_offload_fraction,
           Number{.min = 0.0, .most = 1.0},
           "Fraction of the activations saved for backward that is copied to host memory in "
           "forward, and back in backward.")
      .also = {"cpu_offloading_num_layers", "kaimm_offload_activation_ratio"};
  megatron.add("backend", &S::backend, backend(), kBackendHelp);
  megatron.add("fp8", &S::fp8, Fp8Codec{}, kMegatronFp8Help);
}

// Adds strategy.name, the key that selects the strategy. The loader reads it before all other keys
// of [strategy].
void add_name(std::vector<FieldSpec>& out) {
  Choice names{strategy_names(), {{"megatron-fsdp", "megatron_fsdp"}, {"mfsdp", "megatron_fsdp"}}};
  FieldSpec name;
  name.section = "strategy";
  name.key = "name";
  name.type = names.type();
  name.help = "The strategy of data parallelism.";
  name.schema = names.schema();
  name.set = [names](const Input& input, Plan& plan) {
    if (const auto chosen = names.read(input)) plan.strategy = default_strategy(*chosen);
  };
  name.get = [](const Plan& plan) { return Json(strategy_name(plan.strategy)); };
  out.push_back(std::move(name));
}

}  // namespace

void add_strategy_fields(std::vector<FieldSpec>& out) {
  add_name(out);
  add_fsdp2(out);
  add_megatron_fsdp(out);
  add_ddp(out);
  add_megatron(out);
}

}  // namespace am::config
