/* am-run and am-repl of the wheel: executes am-plan, which is in the same folder and contains all
 * tools (tools.c). TOOL is the name of the tool, "am-run" or "am-repl". */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  static const char program[] = "am-plan";
  char path[PATH_MAX + sizeof(program)];
  const ssize_t size = readlink("/proc/self/exe", path, PATH_MAX);
  path[size < 0 ? 0 : size] = '\0';
  char* slash = strrchr(path, '/');
  strcpy(slash == NULL ? path : slash + 1, program);
  char name[] = TOOL;
  if (argc > 0) argv[0] = name;
  execv(path, argv);
  fprintf(stderr, TOOL ": cannot run %s: %s\n", path, strerror(errno));
  return 126;
}
