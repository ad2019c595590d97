/* The wheel's am-plan, which contains am-plan, am-run and am-repl, because they share most of their
 * code. argv[0] selects the tool. scripts/wheel renames main() of each tool.
 */
#include <string.h>
#include <sys/prctl.h>

int am_plan_main(int argc, char** argv);
int am_run_main(int argc, char** argv);
int am_repl_main(int argc, char** argv);

int main(int argc, char** argv) {
  const char* slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
  const char* name = slash != NULL ? slash + 1 : argc > 0 ? argv[0] : "";
  int (*tool)(int, char**) = am_plan_main;
  if (strcmp(name, "am-run") == 0) tool = am_run_main;
  if (strcmp(name, "am-repl") == 0) tool = am_repl_main;
  /* `ps` and `pgrep` show the tool's name, and not that of the file. */
  if (tool != am_plan_main) prctl(PR_SET_NAME, name);
  return tool(argc, argv);
}
