"""Declares the names that the examples of public headers use without declaration, for header_examples.py."""

# Declarations of common names. A bare name that is not listed here is a tensor.
COMMON = {
    "bytes": "std::span<const std::byte> bytes",
    "config": "const model::ModelConfig& config",
    "constants": "const predict::CostConstants& constants",
    "deadline": "std::chrono::steady_clock::time_point deadline",
    "folder": "const std::filesystem::path& folder",
    "found": "Diagnostics& found",
    "gpu": "const cluster::Gpu& gpu",
    "layout": "const layout::Layout& layout",
    "mesh": "const runtime::DeviceMesh& mesh",
    "plan": "const config::Plan& plan",
    "rank": "int64_t rank",
    "run": "const run_folder::RunFolder& run",
    "source": "const std::unique_ptr<stored::TensorSource>& source",
    "store": "c10d::Store& store",
    "style": "const term::Style& style",
    "text": "std::string_view text",
    "timeout": "std::chrono::milliseconds timeout",
    "workload": "const predict::Workload& workload",
    "world": "const runtime::World& world",
}

# Parameters of each example: the names that it uses without declaration.
GIVEN = {
    "base/child_process.h": "int pipe_end",
    "base/crc32c.h": "std::span<const std::byte> first, std::span<const std::byte> second",
    "base/diagnostic.h": "style",
    "base/direct_file.h":
        "uint64_t size, std::string_view header, std::span<const std::byte> values",
    "base/error.h": "const std::string& path, const std::string& reason",
    "base/json_cursor.h": "text, std::vector<int64_t>& shape",
    "base/in_order.h": "std::string& out, const std::vector<std::string>& words",
    "base/read_ahead.h":
        "const std::vector<std::string>& blocks, std::span<std::byte> bytes_of(std::string_view), "
        "void use(std::string_view)",
    "base/shared_library.h": "plan",
    "base/text_cursor.h": "bool is_letter(char)",
    "chat/builtin.h": "Interpreter& in",
    "chat/format_spec.h": "Heap& heap",
    "chat/objects.h": "Interpreter& in",
    "checkpoint/background_saver.h":
        "parallel::ShardedParameters& model, const SavedState& state, folder, "
        "const std::filesystem::path& checkpoints, const std::vector<run_folder::JobStep>& lineage",
    "checkpoint/export_dcp.h": "source",
    "checkpoint/export_optimizer.h":
        "const stored::TensorSource& source, const std::vector<FilledTensor>& parameters, "
        "const frameworks::NameTable& table",
    "checkpoint/filled_tensor.h":
        "const frameworks::NameMap& names, const stored::TensorSource& source, out",
    "checkpoint/module_checkpoint.h":
        "parallel::ShardedModule& sharded, torch::optim::Optimizer& optimizer",
    "checkpoint/rank_file.h":
        "const std::string& save_id, rank, const std::vector<SavedBox>& boxes, folder, "
        "std::span<std::byte> memory",
    "checkpoint/read_tensor.h": "source",
    "cluster/csv.h": "text, found",
    "compat/first_rank_per_node.h":
        "Distributed& dist, const std::filesystem::path& path, "
        "void load_tokenizer(const std::filesystem::path&), "
        "std::vector<int64_t> read_tokens(const std::filesystem::path&)",
    "compat/hf_tp_plan.h": "const model::ModelConfig& qwen3",
    "compat/parallelizer.h": "config, ids, labels",
    "config/batch.h": "plan, const mesh::MeshSizes& mesh",
    "config/field_builder.h": "std::vector<FieldSpec>& out",
    "config/write.h": "plan",
    "config/yaml_reader.h": "found",
    "control/client.h": "const FoundJob& job",
    "control/frame.h": "std::string_view bytes, int fd, void handle(const std::string&)",
    "control/place.h": "run, const ServerOptions& options",
    "control/server.h": "ControlPlace& place, const ServerOptions& options, const Json& answer",
    "control/token.h": "const Nonces& nonces, const std::string& theirs",
    "data/batch.h": "const DataSpec& spec, int64_t place, int64_t m, int64_t d",
    "data/data_file.h": "size_t& count",
    "data/guarded_text.h":
        "chat::ChatRequest& request, const chat::ChatTemplate& chat_template, "
        "const Tokenizer& tokenizer",
    "data/prepared.h": "const DataSpec& spec",
    "data/fingerprint.h": "const std::unique_ptr<TokenSource>& source",
    "data/text_stream.h": "const Tokenizer& tokenizer, int64_t id",
    "data/tokenizer.h": "const std::vector<int64_t>& ids",
    "data/tokenizer/charsmap.h": "std::string_view map_bytes",
    "data/tokenizer/json_field.h": "const SortedJson& json",
    "data/tokenizer/pre_tokenizer.h": "const Piece& piece, PieceSink& sink",
    "data/tokenizer/regex.h": "text, std::vector<std::pair<size_t, size_t>>& pieces",
    "data/conversation.h":
        "const std::unique_ptr<Tokenizer>& tokenizer, const chat::ChatTemplate& chat_template, "
        "const std::string& line",
    "data/sampler.h": "const std::unique_ptr<SampleSource>& samples, int64_t m, int64_t d",
    "data/samples.h": "const DataSpec& spec",
    "draw/report.h":
        "plan, const model::ModelConfig& model, layout, "
        "const std::vector<predict::RankMemory>& memory, const predict::Prediction& prediction",
    "formats/parquet/table.h": "void use(const Json&)",
    "formats/parquet/thrift.h": "bytes, int64_t& rows",
    "formats/pickle.h": "bytes",
    "formats/torch_archive.h": "bytes",
    "formats/torch_legacy.h": "bytes",
    "formats/torch_slice.h":
        "uint64_t position, DirectFile& file, std::span<const std::byte> values",
    "formats/zip_records.h": "bytes",
    "frameworks/exchange.h": "plan, const model::ModelConfig& model, layout, found",
    "frameworks/framework_rules.h": "found",
    "frameworks/mapped_source.h": "folder",
    "frameworks/model_name.h": "const model::ModelConfig& llama_8b",
    "frameworks/name_map.h": "config",
    "frameworks/optimizer_settings.h": "source",
    "frameworks/plan_builder.h": "Source& source",
    "frameworks/shared_key.h": "const JobShape& shape, Json& out, PlanBuilder& builder",
    "frameworks/source.h": "const std::optional<config::Value>& root, found",
    "frameworks/torch_checkpointing/metadata.h": "bytes",
    "frameworks/words.h": "found",
    "inspect/command.h": "Session& session",
    "inspect/console.h": "std::unique_ptr<Interpreter> interpreter, style",
    "inspect/interpreter.h": "Interpreter& interpreter",
    "inspect/pick.h": "Session& session, const Arguments& arguments",
    "inspect/rows.h": "const std::string& name, Result& result, const Session& session",
    "inspect/session.h": "std::unique_ptr<stored::TensorSource> source, style",
    "job/job.h": "found",
    "job/plan_difference.h": "const config::Plan& a, const config::Plan& b",
    "job/scaled_down_job.h": "const Job& job, found",
    "job/shard_difference.h": "const layout::Layout& a, const layout::Layout& b",
    "launch/cause/first_cause.h": "JobResult& result",
    "launch/cause/rank_error.h": "void train(), rank",
    "launch/doctor/doctor.h": "const JobNeeds& needs, const MachineQuestion& question",
    "launch/doctor/machine.h": "run",
    "launch/doctor/memory_fit.h": "int64_t wanted, void refuse(const std::string&)",
    "launch/nodes/background_store.h":
        "std::shared_ptr<KeyValueStore> remote_store, int64_t node_rank",
    "launch/nodes/key_value_store.h": "KeyValueStore& store",
    "launch/nodes/store_table.h": "int client, std::string_view bytes",
    "launch/nodes/verdict.h":
        "KeyValueStore& store, const Verdict& verdict, text, int64_t ranks_per_node, "
        "JobResult& result",
    "launch/supervise/local.h": "run, void to_stderr(std::string_view)",
    "launch/supervise/orphan_guard.h": "const std::vector<std::string>& command",
    "launch/supervise/process.h": "int log",
    "launch/supervise/rank_children.h":
        "const JobSpec& spec, void output(std::string_view), int port, "
        "void wait_for_output_or_signal(int fd), void judge(const RankExit&)",
    "launch/supervise/restart.h":
        "folder, const std::string& job, const JobSpec& spec, const JobCallbacks& callbacks",
    "launch/supervise/stop_signal.h":
        "int64_t step, int64_t max_steps, void train_step(), void save()",
    "layout/runs.h": "plan, const model::ModelConfig& model",
    "layout/saved_activations.h": "const model::LayerSpec& layer",
    "layout/stage_layout.h": "layout",
    "live/attach_server.h":
        "const job::Job& job, world, run, const AttachServerOptions& options, "
        "const launch::StopSignal& stop",
    "live/attached_model.h": "AttachServer& server, train::Trainer& trainer, std::string run",
    "live/program.h":
        "world, ProgramOptions options, std::vector<values::ProgramTensor> tensors, "
        "const ProgramNumbers& numbers, int64_t steps",
    "live/stack_probe.h": "world",
    "live/module_program.h":
        "world, const ProgramOptions& options, parallel::ShardedModule& sharded, "
        "torch::optim::AdamW& optimizer, const ProgramNumbers& numbers, int64_t steps",
    "live/visit_agreement.h": "int64_t steps",
    "model/config_reader.h": "ModelConfig& config, ConfigReader& reader",
    "model/flops.h":
        "config, int64_t seq_len, double tokens_per_second, int64_t ranks, double peak_flops",
    "model/layer_class.h": "const ModelConfig& qwen3",
    "model/layer_profile.h": "config, double flops",
    "model/lora.h": "config",
    "model/spec.h": "config",
    "nn/attention/attention.h": "q_BHTK, k_BGTK, v_BGTV",
    "nn/attention/block_kernel.h":
        "q_BHtK, k_BGsK, v_BGsV, const AttentionParams& params, out_BtHV, lse_BHt",
    "nn/attention/blocked.h": "q_BHTK, k_BGTK, v_BGTV",
    "nn/autocast.h": "x, w",
    "nn/checkpoint.h": "const Linear& gate_proj, const Linear& up_proj, const Linear& down_proj, x",
    "nn/decoder_layer.h": "x_BTD, const Rotation& rotation, const DecoderLayer& layer",
    "nn/experts/dispatch.h": "ids_Nk, int64_t experts, x_ND, weights_Nk",
    "nn/experts/token_dispatcher.h":
        "const TokenDispatcher& dispatcher, ids_Nk, int64_t experts, x_ND, weights_Nk, "
        "const std::vector<at::Tensor>& out, added_ND, bool unread",
    "nn/fused/fp8.h": "x, weight, bias",
    "nn/fused/dispatch.h": "float* out, const float* in, int64_t count",
    "nn/fused/product.h": "a_MK, b_KN",
    "nn/key_value_cache.h": "Decoder& decoder, prompt_BT, next_B1",
    "nn/projections.h": "const Attention& attention, x_BTD, RecomputeTape& products",
    "nn/weight_pass.h": "Decoder& decoder, ids, at::Tensor y, of_y",
    "observe/loggers.h": "folder, const Loggers::Note& note",
    "observe/loss_spikes.h": "int64_t step, double loss, void log(const std::string&)",
    "observe/metric_series.h": "run",
    "observe/metrics.h": "run, int64_t resumed_step",
    "observe/prometheus_sink.h": "run, const StepMetrics& metrics",
    "observe/rank_times.h":
        "const std::vector<RankTimes>& times, const std::vector<int64_t>& peers, "
        "std::string host_of(int64_t), void log(const std::string&)",
    "observe/status_line.h": "style, std::string_view bytes, void write(const std::string&)",
    "observe/step_line.h": "int64_t max_steps, const StepMetrics& metrics",
    "observe/tensorboard_sink.h": "run, int64_t resumed_step, const StepMetrics& metrics",
    "inspect/dashboard.h": "Interpreter& interpreter, Screen& screen, style",
    "runtime/trace_range.h": "const std::string& group",
    "live/state_dumps.h":
        "run, const std::function<void(const StateDumps::Use&)>& report, "
        "const std::function<void(const std::string&)>& log",
    "nn/attention/entropy.h": "q_BHTK, k_BGTK, v_BGTV, const AttentionParams& params",
    "values/commands/forward.h": "inspect::Session& session, const inspect::Arguments& arguments",
    "train/straggler_watch.h":
        "plan, world, mesh, double data_seconds, StepReport& step_report, "
        "const StepNumbers& numbers, void log(const std::string&)",
    "train/step_trace.h": "plan, mesh, run, int64_t step, void log(const std::string&)",
    "optim/grad_scaler.h":
        "Optimizer& optimizer, loss, bool found_inf, const std::vector<at::Tensor>& gradients, "
        "double learning_rate",
    "optim/optimizer.h":
        "plan, const parallel::ParallelModel& model, const std::vector<at::Tensor>& gradients, "
        "double learning_rate",
    "parallel/module/parallel_layers.h": "mesh",
    "parallel/module/sharded_module.h": "mesh, x, y",
    "parallel/parallel_model.h":
        "plan, config, layout, mesh, ids, labels, MicroBatches& batches, "
        "double labels_in_global_batch",
    "parallel/pp/pipeline.h":
        "const pipeline::PipelineShape& shape, std::map<int, Stage> stages, mesh, "
        "const HiddenForm& hidden, MicroBatches& batches, double labels_in_global_batch",
    "parallel/pp/stage.h":
        "StageModel& model, int64_t m, const MicroBatch& batch, hidden, double divisor, of_down",
    "parallel/strategy.h": "plan, config, layout, mesh",
    "parallel/sync_ctx.h": "ParallelModel& model, plan, bool is_optim_step, bool defer, loss",
    "parallel/unshard.h": "const std::unique_ptr<ParallelModel>& model",
    "pipeline/timeline.h": "const Schedule& schedule, int64_t stages, int64_t ranks",
    "predict/memory/host_memory.h": "plan, const model::ModelConfig& model, layout",
    "predict/memory/layout_summary.h": "plan, config, layout",
    "predict/memory/memory_moments.h":
        "plan, config, layout, const ActivationContext& context, const StepUnits& step, rank, "
        "const model::Unit& unit",
    "predict/memory/peak_memory.h": "workload",
    "predict/memory/sampled_memory.h":
        "plan, config, const layout::Layout& sample, const mesh::MeshSizes& mesh",
    "predict/memory/stage_memory.h": "plan, config, layout",
    "predict/search/search.h": "config, gpu, const Calibration& calibration",
    "predict/search/least_gpus.h": "config, gpu, const Calibration& calibration",
    "predict/search/search_space.h":
        "const SearchRequest& request, constants, SearchResult& result",
    "predict/time/evidence.h": "workload, gpu",
    "predict/time/goodput.h": "plan, layout, gpu, double step_seconds",
    "predict/time/measured_runs.h": "text, found",
    "predict/time/pass_time.h": "workload, gpu, constants, const model::LayerProfile& profile",
    "predict/time/pipeline_time.h": "const std::vector<pipeline::StageDurations>& stages",
    "predict/time/prediction.h": "plan, config, layout, found",
    "predict/time/step_time.h": "workload, gpu, constants",
    "predict/time/workload.h": "plan, config, layout, gpu, constants",
    "run_folder/data_files.h":
        "folder, const CheckpointInfo& info, bool is_parameter(const std::string&), "
        "std::string_view beginning, uint64_t file_bytes",
    "run_folder/held_folder.h": "run, const JobRecord& record",
    "run_folder/job_record.h":
        "run, const JobIdentity& job, int64_t first_step, const std::string& launcher",
    "run_folder/job_time.h": "const JobTime& before, double began",
    "run_folder/run_lock.h": "run, const std::string& job",
    "runtime/channel.h": "mesh, x",
    "runtime/collective_error.h": "const Group& group, loss_sum",
    "runtime/group.h": "const Group& group, loss_sum, full, shard",
    "runtime/inquiry.h":
        "store, rank, int64_t world_size, GroupContext& context, "
        "std::chrono::milliseconds interval, bool stopping(), const Collective& waiting, "
        "const Collective& collective, bool timed_out",
    "runtime/process_group_engine.h":
        "const launch::RankEnvironment& here, c10::Device device",
    "runtime/progress.h": "world",
    "runtime/shared_memory/channel.h":
        "store, int64_t index, int64_t size, const std::vector<int64_t>& ranks, "
        "const std::byte* data, size_t bytes, int64_t peer, deadline",
    "runtime/shared_memory/combine.h":
        "void* out, const void* row_0, const void* row_1, int64_t count",
    "runtime/shared_memory/exchange.h":
        "const std::unique_ptr<Channel>& channel, void* out, const void* in, int64_t bytes, "
        "deadline",
    "runtime/shared_memory/mailbox.h": "std::unique_ptr<Channel> channel, timeout, tensor",
    "runtime/shared_memory/rounds.h":
        "Rounds& rounds, deadline, const std::byte* data, size_t bytes, uint64_t label, "
        "int64_t peer",
    "runtime/shared_memory/segment.h": "size_t bytes, store",
    "runtime/shared_memory/task_queue.h":
        "Exchange& exchange, void* out, const void* in, int64_t bytes, deadline",
    "runtime/store.h": "const launch::RankEnvironment& here, timeout",
    "runtime/watchdog.h": "world",
    "runtime/world.h": "const launch::RankEnvironment& here, timeout, const mesh::MeshSizes& sizes",
    "stored/hub_names.h":
        "source, const model::Inventory& inventory, const mesh::Box& box, const Destination& out",
    "tensor/gpu_kernels.h": "x, y, g, u, model::Activation act",
    "tensor/memory_meter.h": "at::Tensor full, const Shape& shape",
    "tensor/nf4.h": "weight, codes, absmax",
    "tensor/parallel_for.h": "int64_t rows",
    "tensor/side_stream.h": "c10::Device device, host, values",
    "term/printable.h": "const std::string& name",
    "term/table.h": "style",
    "term/wrap.h": "style",
    "train/dry_run.h": "const job::Job& job",
    "train/foreign_checkpoint.h":
        "parallel::ParallelModel& model, const optim::Optimizer& optimizer",
    "train/resume.h":
        "config::Plan plan, const std::filesystem::path& checkpoints, world, config, "
        "const mesh::MeshSizes& mesh, const data::BatchReader& reader",
    "train/run_facts.h":
        "plan, config, const data::BatchReader& reader, const run_folder::CheckpointInfo& info",
    "train/step.h":
        "plan, parallel::ParallelModel& model, optim::Optimizer& optimizer, "
        "StepObserver& observer, BatchSource& batches, int64_t index, double loss_scale, "
        "double learning_rate",
    "train/trainer.h": "const job::Job& job, world, run, const launch::StopSignal& stop",
    "train/validation.h":
        "plan, parallel::ParallelModel& model, world, int64_t step, observe::StepMetrics& metrics",
    "train/verify_layout.h": "plan, config",
    "tensor/checksum.h":
        "whole, top, bottom, const mesh::Box& top_box, const mesh::Box& bottom_box, "
        "const Shape& shape",
    "values/on_threads.h":
        "const std::vector<at::Tensor>& blocks, const std::vector<at::Tensor>& buffers, "
        "void use(const at::Tensor&, const at::Tensor&)",
    "values/pairs.h": "a, b",
    "values/program_tensors.h":
        "world, std::vector<ProgramTensor> own, ProgramFacts facts",
    "values/tensor_files.h": "inspect::Session& session",
    "values/two_sources.h":
        "Session& session, const stored::StoredTensor& a, const stored::StoredTensor& b, "
        "VisitPair compare",
    "values/unread.h":
        "inspect::Session& session, const std::vector<inspect::Picked>& all, inspect::Rows& rows, "
        "Json row_of(const inspect::Picked&), inspect::Result& result",
}

# Headers that an example includes in addition to the example's own header.
ALSO = {
    "base/diagnostic.h": ["am/config/plan.h", "am/rules/check.h", "am/term/caret.h"],
    "base/error.h": ["am/base/text.h"],
    "base/shared_library.h": ["am/config/plan.h"],
    "base/signals_blocked.h": ["unistd.h"],
    "checkpoint/background_saver.h": ["am/run_folder/step_folders.h"],
    "checkpoint/export_dcp.h": ["am/frameworks/name_map.h"],
    "compat/distributed.h": ["am/compat/distributed_utils.h", "am/compat/init_utils.h"],
    "config/batch.h": ["am/mesh/layout.h"],
    "control/frame.h": ["unistd.h"],
    "draw/report.h": ["am/base/file.h"],
    "formats/parquet/table.h": ["am/base/file.h"],
    "formats/torch_slice.h": ["am/base/direct_file.h"],
    "frameworks/mapped_source.h": ["am/stored/dcp_source.h"],
    "train/foreign_checkpoint.h": ["am/train/saved_states.h"],
    "inspect/session.h": ["am/inspect/stored_catalog.h"],
    "job/scaled_down_job.h": ["am/base/file.h", "am/config/write.h"],
    "launch/nodes/background_store.h": ["am/launch/nodes/node_rendezvous.h"],
    "launch/supervise/local.h": ["am/run_folder/run_folder.h"],
    "launch/supervise/restart.h": ["am/run_folder/step_folders.h"],
    "launch/supervise/signal_scope.h": ["csignal", "poll.h"],
    "data/guarded_text.h": ["am/chat/chat_template.h", "am/data/tokenizer.h"],
    "observe/metric_series.h": ["am/run_folder/run_folder.h"],
    "observe/metrics.h": ["am/run_folder/run_folder.h"],
    "runtime/trace_range.h": ["am/base/text.h"],
    "train/step_trace.h": ["am/run_folder/run_folder.h"],
    "optim/optimizer.h": ["am/optim/from_plan.h"],
    "parallel/module/sharded.h": ["torch/nn/modules/container/modulelist.h"],
    "parallel/module/parallel_layers.h": ["am/parallel/module/sharded_module.h"],
    "parallel/module/sharded_module.h": ["torch/nn/modules/linear.h", "torch/optim/adamw.h"],
    "parallel/parallel_model.h": ["am/checkpoint/weights.h"],
    "pipeline/schedule.h": ["am/pipeline/communication.h", "am/pipeline/timeline.h"],
    "predict/memory/host_memory.h": ["am/launch/doctor/memory_fit.h"],
    "runtime/process_group_engine.h": [
        "am/runtime/world.h",
        "torch/csrc/distributed/c10d/GroupRegistry.hpp",
    ],
    "runtime/world.h": ["am/runtime/device_mesh.h"],
    "stored/tensor_source.h": ["am/frameworks/open_weights.h"],
    "live/module_program.h": ["am/live/program.h", "torch/optim/adamw.h"],
    "values/program_tensors.h": ["am/values/program_view.h"],
    "values/unread.h": ["am/inspect/pick.h", "am/inspect/rows.h"],
}

# Headers whose first example, in the comment at their top, defines types or functions. It is compiled outside of a function.
DEFINITIONS = {
    "config/codec.h",
    "launch/supervise/signal_thread.h",
    "model/families/blocks.h",
    "nn/fused/dispatch.h",
    "nn/fused/lanes.h",
    "parallel/strategy.h",
    "values/narrow_lanes.h",
}

# Headers whose indented lines look like C++, but are formulas, layouts of folders or variables.
NOT_CPP = {
    "launch/cause/interpreter_stack.h",
    "nn/experts/expert_feed_forward.h",
    "nn/fused/clamped.h",
    "nn/fused/rms_norm.h",
    "nn/fused/shared_rms_norm.h",
    "optim/elementwise.h",
    "optim/muon.h",
    "runtime/nccl_environment.h",
    "stored/hf_shards_source.h",
}
