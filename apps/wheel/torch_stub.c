/* am-run-rank and am-repl-values of the wheel: finds the libtorch of an installed torch, loads it
 * and the library that contains the program, and calls its main(). PROGRAM is the name of the
 * program, TORCH the version of torch that it needs, for example "2.11", and LIBRARY the file name
 * of libautomesh.so.
 *
 * The programs have no search path for libtorch, because the location of torch is not known when
 * the wheel is built. The first of these places that has a libtorch is used. AM_TORCH_DIR, if set,
 * must have one:
 *
 *   $AM_TORCH_DIR                         the folder of a torch package, or of an unzipped libtorch
 *   PREFIX/lib/pythonX.Y/site-packages    PREFIX is the environment of this program
 *   the folder from which PREFIX/bin/python imports torch (another environment, a .pth file, conda,
 *   a container)
 *   the folder from which the python3 on PATH imports torch
 *
 * The version is checked before anything is loaded. Environment variables are not changed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kLongest = PATH_MAX };

static const char kHowTo[] =
    "help: pip install 'torch==" TORCH
    ".*' in this environment, or set AM_TORCH_DIR to the folder of a torch " TORCH " package\n";

static void fail(const char* format, ...) {
  va_list words;
  va_start(words, format);
  fputs(PROGRAM ": error: ", stderr);
  vfprintf(stderr, format, words);
  va_end(words);
  fputc('\n', stderr);
}

/* Writes the path A/B to `out` if it fits. Returns whether the file can be read. */
static int path_of(char* out, const char* a, const char* b) {
  const int size = snprintf(out, kLongest, "%s/%s", a, b);
  return size > 0 && size < kLongest && access(out, R_OK) == 0;
}

/* Returns whether `folder` is a torch package or an unzipped libtorch. */
static int has_torch(const char* folder) {
  char file[kLongest];
  return path_of(file, folder, "lib/libtorch_cpu.so");
}

/* Sets `out` to PREFIX, the folder of this program's environment. The program is
 * PREFIX/libexec/automesh/NAME. Returns 0 on failure. */
static int set_prefix(char* out) {
  const ssize_t size = readlink("/proc/self/exe", out, kLongest - 1);
  if (size < 0) return 0;
  out[size] = '\0';
  for (int up = 0; up < 3; ++up) {
    char* slash = strrchr(out, '/');
    if (slash == NULL) return 0;
    *slash = '\0';
  }
  return 1;
}

/* Sets `out` to the torch package in the environment's site-packages. Returns 0 if it has none. */
static int torch_in(const char* prefix, char* out) {
  char pattern[kLongest];
  if (snprintf(pattern, sizeof pattern, "%s/lib*/python3*/site-packages/torch", prefix) >= kLongest)
    return 0;
  glob_t found;
  int known = 0;
  if (glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && !known; ++i) {
      known = has_torch(found.gl_pathv[i]) && strlen(found.gl_pathv[i]) < kLongest;
      if (known) strcpy(out, found.gl_pathv[i]);
    }
  }
  globfree(&found);
  return known;
}

/* Sets `out` to the package that the interpreter `python` would import as torch. Returns 0 if there
 * is none. */
static int torch_of(const char* python, char* out) {
  char command[2 * kLongest];
  if (strchr(python, '\'') != NULL) return 0;
  snprintf(command, sizeof command,
           "'%s' -c \"import sys; sys.path[:] = [p for p in sys.path if p]; "
           "import importlib.util as u; s = u.find_spec('torch'); "
           "print(list(s.submodule_search_locations)[0] if s else '')\" 2>/dev/null",
           python);
  FILE* answer = popen(command, "r");
  if (answer == NULL) return 0;
  out[0] = '\0';
  if (fgets(out, kLongest, answer) == NULL) out[0] = '\0';
  pclose(answer);
  out[strcspn(out, "\n")] = '\0';
  return out[0] != '\0' && has_torch(out);
}

static int find_torch(const char* prefix, char* out) {
  const char* given = getenv("AM_TORCH_DIR");
  if (given != NULL && given[0] != '\0') {
    if (has_torch(given) && strlen(given) < kLongest) {
      strcpy(out, given);
      return 1;
    }
    fail("AM_TORCH_DIR = %s has no lib/libtorch_cpu.so", given);
    return 0;
  }
  char python[kLongest];
  if (torch_in(prefix, out)) return 1;
  if (path_of(python, prefix, "bin/python") && torch_of(python, out)) return 1;
  if (torch_of("python3", out)) return 1;
  fail("no torch is installed for %s", prefix);
  fputs(kHowTo, stderr);
  return 0;
}

/* Checks the version in torch/version.py or, in an unzipped libtorch, in build-version. Versions
 * such as 2.11.0a0+git and 2.11.0.dev1 belong to builds with another binary interface. */
static int check_version(const char* torch) {
  char file[kLongest];
  char line[256];
  char version[128] = "";
  const int package = path_of(file, torch, "version.py");
  if (!package && !path_of(file, torch, "build-version"))
    return 1; /* the loaded library is checked again */
  FILE* text = fopen(file, "r");
  while (text != NULL && version[0] == '\0' && fgets(line, sizeof line, text) != NULL) {
    if (package) {
      sscanf(line, "__version__ = '%127[^']", version);
    } else {
      sscanf(line, "%127s", version);
    }
  }
  if (text != NULL) fclose(text);
  const size_t size = strlen(TORCH ".");
  if (strncmp(version, TORCH ".", size) == 0) {
    const char* rest = version + size;
    rest += strspn(rest, "0123456789");
    if (*rest == '\0' || *rest == '+' || strncmp(rest, ".post", 5) == 0) return 1;
  }
  fail("torch %s in %s cannot be used: this automesh was built for torch " TORCH, version, torch);
  fputs(kHowTo, stderr);
  return 0;
}

/* Loads a library and makes its symbols visible to libraries that are loaded later. Returns 0 after
 * an error. A missing file is an error only if `must` is set. */
static int load(const char* folder, const char* name, int must) {
  char file[kLongest];
  if (!path_of(file, folder, name)) {
    if (must) fail("%s/%s is missing: install torch and automesh again", folder, name);
    return !must;
  }
  if (dlopen(file, RTLD_NOW | RTLD_GLOBAL) != NULL) return 1;
  fail("cannot load %s", dlerror());
  return 0;
}

int main(int argc, char** argv) {
  static char prefix[kLongest];
  static char torch[kLongest];
  char folder[kLongest];
  if (!set_prefix(prefix)) {
    fail("cannot read /proc/self/exe: %s", strerror(errno));
    return 127;
  }
  /* If LD_PRELOAD has loaded a libtorch already, the program uses it. */
  if (dlsym(RTLD_DEFAULT, "aoti_torch_abi_version") == NULL) {
    if (!find_torch(prefix, torch) || !check_version(torch)) return 127;
    if (!load(torch, "lib/libgomp.so.1", 0) || !load(torch, "lib/libc10.so", 1) ||
        !load(torch, "lib/libtorch_cpu.so", 1)) {
      return 127;
    }
  }
  snprintf(folder, sizeof folder, "%.*s/lib/automesh", kLongest - 32, prefix);
  if (!load(folder, LIBRARY, 1)) return 127;
  char file[kLongest];
  path_of(file, folder, "lib" PROGRAM ".so");
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  int (*program)(int, char**) = NULL;
  if (library != NULL) *(void**)&program = dlsym(library, "main");
  if (program == NULL) {
    fail("cannot load %s", dlerror());
    return 127;
  }
  return program(argc, argv);
}
