/* A tensor-parallel plan in plain C, as a plan's tp_plan = "libmine.so:feed_forward" names it. */
#include <am/layout/tp_plan_abi.h>

AM_TP_PLAN(feed_forward) {
  return "\"model.layers.*.mlp.{gate,up}_proj\" = \"colwise\"\n"
         "\"model.layers.*.mlp.down_proj\" = \"rowwise\"\n";
}
