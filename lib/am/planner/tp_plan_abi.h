/* What a library exports that gives tensor-parallel plans: C functions without arguments that
 * return a plan as TOML text, a table of module pattern = style. Valid C, and nothing else of
 * automesh is needed, nor a matching compiler.
 *
 *   #include <am/planner/tp_plan_abi.h>
 *
 *   AM_TP_PLAN(my_plan) {
 *     return "\"model.layers.*.mlp.{gate,up}_proj\" = \"colwise\"\n"
 *            "\"model.layers.*.mlp.down_proj\" = \"rowwise\"\n";
 *   }
 *
 *   cc -shared -fPIC -o libmine.so mine.c
 *   [strategy]
 *   tp_plan = "libmine.so:my_plan"
 *
 * The text is UTF-8 and ends with a zero byte; it belongs to the library, and is copied before the
 * library is called again. Null means that there is no plan, which is an error with this symbol's
 * name. The function is called when a plan is checked and by every rank that runs it, so it must
 * give the same text each time. It must not throw.
 */
#ifndef AM_PLANNER_TP_PLAN_ABI_H
#define AM_PLANNER_TP_PLAN_ABI_H

typedef const char* (*am_tp_plan_function)(void); /* NOLINT(modernize-*): valid C */

#ifdef __cplusplus
#define AM_TP_PLAN(name) extern "C" __attribute__((visibility("default"))) const char* name(void)
#else
#define AM_TP_PLAN(name) __attribute__((visibility("default"))) const char* name(void)
#endif

#endif
