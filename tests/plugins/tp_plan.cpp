// Tensor-parallel plans in a shared library, named as in `tp_plan = "tp_plan.so:good"`.
#include "am/layout/tp_plan_abi.h"

AM_TP_PLAN(good) {
  return "\"model.layers.*.mlp.{gate,up}_proj\" = \"colwise\"\n"
         "\"model.layers.*.mlp.down_proj\" = \"rowwise\"\n";
}

AM_TP_PLAN(no_toml) { return "this is no TOML"; }

AM_TP_PLAN(nothing) { return nullptr; }
