// Table of torchtitan's settings, which the export (config.cpp) and the import (config_reader.cpp)
// use.
#pragma once

#include <array>

#include "am/frameworks/shared_key.h"

namespace am::frameworks {

// Settings of torchtitan that correspond to one plan key each. The third column is torchtitan's
// default (SharedKey::absent).
inline constexpr std::array<SharedKey, 11> kTorchtitanKeys = {{
    {"training.seq_len", "train.seq_len", int64_t{2048}},
    {"training.steps", "train.max_steps", int64_t{10000}},
    {"training.max_norm", "train.max_grad_norm", 1.0, Form::kZeroIsOff},
    {"compile.enable", "strategy.enable_compile", {}, Form::kOptional},
    {"optimizer.lr", "optimizer.lr", 8e-4},
    {"optimizer.eps", "optimizer.eps", 1e-8},
    {"optimizer.weight_decay", "optimizer.weight_decay", 0.1},
    {"lr_scheduler.warmup_steps", "scheduler.warmup_steps", int64_t{200}},
    {"checkpoint.folder", "checkpoint.dir", {}, Form::kOptional},
    {"metrics.log_freq", "metrics.every", int64_t{10}},
    {"metrics.enable_tensorboard", "metrics.tensorboard", {}, Form::kOptional},
}};

}  // namespace am::frameworks
