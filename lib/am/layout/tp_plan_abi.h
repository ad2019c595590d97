/* Interface of shared libraries that provide tensor-parallel plans: C functions without arguments
 * that return a plan as TOML text, a table of module pattern = style. This header is valid C and
 * needs neither other headers of automesh nor a matching compiler.
 *
 *   #include <am/layout/tp_plan_abi.h>
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
 * The text is UTF-8 and null-terminated. It is owned by the library, and copied before the library
 * is called again. A null result means that there is no plan, and is reported as an error with the
 * symbol's name. The function is called when a plan is checked and by every rank that runs it, so
 * it must return the same text each time. It must not throw.
 */
#ifndef AM_LAYOUT_TP_PLAN_ABI_H
#define AM_LAYOUT_TP_PLAN_ABI_H

typedef const char* (*am_tp_plan_function)(void); /* NOLINT(modernize-*): valid C */

#ifdef __cplusplus
#define AM_TP_PLAN(name) extern "C" __attribute__((visibility("default"))) const char* name(void)
#else
#define AM_TP_PLAN(name) __attribute__((visibility("default"))) const char* name(void)
#endif

#endif
