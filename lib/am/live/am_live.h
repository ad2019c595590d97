/* C interface by which any program that trains with PyTorch lets am-repl attach to it.
 *
 * Each rank of the job opens a connection and reports the end of every step. If am_live_step()
 * returns 1, the rank describes its tensors:
 *
 *   am_live* live = am_live_open(&options, tensors, count);  // every rank, after the model exists
 *   for (int64_t step = 1; step <= steps; ++step) {
 *     train();
 *     if (am_live_step(live, step) == 1) {
 *       // describe this rank's tensors again: pointers may have changed
 *       if (am_live_visit(live, tensors, count, &numbers) != 0) puts(am_live_error());
 *     }
 *   }
 *   am_live_close(live, "training has ended");
 *
 * While no client is attached, am_live_step() costs about ten nanoseconds and sends nothing. The
 * command `am-repl RUN` attaches to the job with the run folder RUN. The library opens no port.
 * Rank 0 listens on a Unix socket that only the user of the job can open. The ranks exchange data
 * through the process group and the store that the program has created. The library never changes
 * the program's tensors.
 *
 * The library must be loaded into a process that uses the same version of libtorch. automesh.live
 * (apps/python) is the interface for Python.
 *
 * Functions that fail return NULL or -1; am_live_error() then returns the message. All functions
 * but am_live_error() must be called by the thread that opened the connection. */
#ifndef AM_LIVE_H
#define AM_LIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct am_live am_live;

/* One rank's part of a tensor. If several ranks hold parts of a tensor, they must use the same
 * name, dtype and global shape. The parts must cover the tensor, and any two parts must be disjoint
 * or equal (replicas). */
typedef struct am_live_tensor {
  /* Name of a parameter or buffer; "grad.NAME" for the gradient of parameter NAME;
   * "optim.state.NAME.KIND" for an optimizer state, for example KIND "exp_avg". */
  const char* name;
  /* Address of the first element of the part. The memory must stay valid until the call that
   * receives this description, am_live_open() or am_live_visit(), returns. */
  void* data;
  /* Name of the dtype in PyTorch, without "torch.": for example "float32" or "bfloat16". */
  const char* dtype;
  int32_t dims;                /* number of dims */
  int32_t device;              /* index of the GPU whose memory `data` points to; -1: host memory */
  const int64_t* shape;        /* shape of the part, [dims] */
  const int64_t* strides;      /* strides of the part in elements, [dims]; NULL: contiguous */
  const int64_t* global_shape; /* shape of the whole tensor, [dims]; NULL: `shape` */
  const int64_t* offset;       /* position of the part in the whole tensor, [dims]; NULL: zeros */
  /* Placements along the axes of the mesh, for display, for example "dp_shard:S0 tp:R". S0 is a
   * shard of dim 0, R is replicated, and P is a partial sum. NULL: none. */
  const char* placements;
} am_live_tensor;

/* Numbers of the step that has just ended; NAN: unknown. */
typedef struct am_live_numbers {
  double loss;
  double grad_norm; /* NAN: the library computes it from the gradients among the tensors */
  double learning_rate;
  double step_seconds;      /* NAN: the library measures it */
  double tokens_per_second; /* over all ranks */
} am_live_numbers;

typedef struct am_live_options {
  size_t size;     /* sizeof(am_live_options); am_live_open() refuses any other size */
  const char* run; /* run folder, which is created if it does not exist */
  int64_t rank;
  int64_t world_size;
  /* Name of the c10d process group that has all ranks of the job, for example "0" for PyTorch's
   * default group; NULL: the job has one rank. */
  const char* group;
  /* Sizes of the mesh axes that have more than one rank, for example "dp_shard=2 tp=2"; NULL: all
   * ranks are data-parallel replicas. The axes are pp, dp_replicate, dp_shard, cp and tp. */
  const char* mesh;
  const char* model;  /* name of the model, for titles */
  int64_t first_step; /* number of steps that earlier runs of the program have finished */
  int64_t max_steps;  /* number of finished steps at which training ends; 0: unknown */
  int32_t device;     /* index of this rank's GPU; -1: the rank computes on the host */
  /* Number of a signal whose handler writes the stack of an interpreter to a pipe; 0: none. The
   * library sends the signal to the thread that opened the connection, and reads the stack from
   * `stack_read_fd`, the read end of the pipe. */
  int32_t stack_signal;
  int32_t stack_read_fd;
  /* Returns the most recent collectives of this rank, newest first, as a JSON list of objects with
   * "op", "group" (a name for messages), "communicator" (a name that is equal on the ranks of the
   * group and unique in the job), "ranks", "sequence" (number of the collective in its
   * communicator), "bytes", "seconds_ago" and "waiting" (whether it has not ended); NULL: unknown.
   * Called by another thread, also while the rank hangs. The text must stay valid until the next
   * call. May be NULL. */
  const char* (*collectives)(void);
  /* Receives lines for the user, on rank 0; may be called by another thread. May be NULL. */
  void (*log)(const char* line);
  /* Text of config.json, if the model is a transformers model; NULL: `export` writes only the
   * weights. */
  const char* config;
  const char* model_folder; /* folder with the files of the model's tokenizer; NULL: unknown */
  /* Called several times a second while am_live_visit() waits for commands, so that an interpreter
   * can run its signal handlers. Returns 0 to continue; any other value ends the visit on all
   * ranks. May be NULL. */
  int (*waiting)(void);
  /* Returns the stack of another process on this machine, one frame per line, innermost first, or
   * NULL. Called, by another thread, for ranks whose processes are stopped and therefore cannot
   * write their own stacks. The text must stay valid until the next call. May be NULL. */
  const char* (*stack_of)(int64_t process);
} am_live_options;

/* Opens a connection, and returns it. Collective: all ranks of the job must call am_live_open(). */
am_live* am_live_open(const am_live_options* options, const am_live_tensor* tensors, size_t count);

/* Reports that `steps` steps are finished; must be called once after each step. Returns 1 if the
 * rank must call am_live_visit() before it continues, otherwise 0. Never waits. */
int am_live_step(am_live* live, int64_t steps);

/* Runs the commands of attached clients on all ranks, until the clients let the job continue, and
 * then returns 0. Returns at once if not all ranks can stop at this step. `tensors` must describe
 * this rank's current tensors. If a description is invalid, the function returns -1 after the
 * visit, in which clients find no tensors of this rank. If the descriptions of the ranks contradict
 * each other, the function returns -1 on all ranks, and clients find no tensors. The program may
 * continue after either error. */
int am_live_visit(am_live* live, const am_live_tensor* tensors, size_t count,
                  const am_live_numbers* numbers);

/* Sends `last_words` to the clients, and closes the connection. `live` may be NULL. */
void am_live_close(am_live* live, const char* last_words);

/* Returns the message of the last function that failed in this thread; "" if none has failed. */
const char* am_live_error(void);

#ifdef __cplusplus
}
#endif

#endif /* AM_LIVE_H */
