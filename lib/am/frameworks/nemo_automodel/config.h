// Table of the settings in NeMo AutoModel's recipes that both the export (config.cpp) and the
// import (config_reader.cpp, data_reader.cpp) use. The table does not contain the strategy's keys
// that have equal names in plans and recipes. The export and the import find these keys in the
// plan's table of fields (config/field.h).
#pragma once

#include <array>

#include "am/frameworks/shared_key.h"

namespace am::frameworks {

class PlanBuilder;

// The pattern by which a recipe excludes the head from adapters (LoRA). The export of a plan's
// target_modules = "all-linear" uses this pattern, because "all-linear" does not include the head.
inline constexpr const char* kHeadModule = "*lm_head";

// Settings of a recipe and the corresponding plan keys. The third column is AutoModel's default
// (SharedKey::absent).
inline constexpr std::array<SharedKey, 18> kNemoAutomodelKeys = {{
    {"seed", "model.seed", int64_t{42}},
    {"step_scheduler.max_steps", "train.max_steps"},
    {"step_scheduler.ckpt_every_steps", "checkpoint.every", {}, Form::kOptional},
    {"dist_env.backend", "strategy.backend", {}, Form::kOptional},
    {"dist_env.timeout_minutes", "runtime.timeout_minutes"},
    {"dataloader.shuffle", "data.shuffle"},
    {"optimizer.lr", "optimizer.lr"},
    {"optimizer.betas", "optimizer.betas"},
    {"optimizer.eps", "optimizer.eps"},
    {"optimizer.weight_decay", "optimizer.weight_decay"},
    {"lr_scheduler.lr_warmup_steps", "scheduler.warmup_steps"},
    {"peft.dim", "lora.rank", int64_t{8}},
    {"peft.alpha", "lora.alpha", 32.0},
    {"peft.dropout", "lora.dropout"},
    {"clip_grad_norm.max_norm", "train.max_grad_norm", 1.0, Form::kZeroIsOff},
    {"checkpoint.checkpoint_dir", "checkpoint.dir", {}, Form::kOptional},
    {"checkpoint.is_async", "checkpoint.async", {}, Form::kOptional},
    {"checkpoint.max_recent_checkpoints", "checkpoint.keep", {}, Form::kOptional},
}};

// Reads the data set and the data loader of a recipe. Adds a note if a plan cannot express the data
// set.
void read_nemo_data(PlanBuilder& builder);

}  // namespace am::frameworks
