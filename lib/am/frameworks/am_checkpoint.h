/* C interface to the tensors in checkpoint files of any format that automesh reads: safetensors,
 * torch.distributed.checkpoint, torch.save, am-run's checkpoints, and the folders of training
 * frameworks. Programs that use this interface need no libtorch.
 *
 *   am_checkpoint* file = am_checkpoint_open("checkpoints/step-100");
 *   int64_t at = am_checkpoint_find(file, "model.norm.weight");
 *   am_checkpoint_tensor tensor;
 *   am_checkpoint_describe(file, at, &tensor);           // bfloat16 [4096]
 *   int64_t first[1] = {1024}, count[1] = {512};
 *   uint16_t values[512];
 *   if (am_checkpoint_read(file, at, first, count, values, sizeof values) != 0)
 *     puts(am_checkpoint_error());
 *   am_checkpoint_close(file);
 *
 * Opening reads only names and shapes. am_checkpoint_read() copies values from memory-mapped files,
 * and fails if a file has become shorter since it was opened. To detect shortened files, the first
 * call of am_checkpoint_open() installs a SIGBUS handler for the whole process. Faults in other
 * memory are still handled by the SIGBUS handler that was installed before.
 *
 * Functions that fail return NULL or -1. The calling thread then gets the message from
 * am_checkpoint_error(). Several threads may read from one checkpoint at the same time.
 * automesh_tools (apps/python) is the interface for Python. */
#ifndef AM_CHECKPOINT_H
#define AM_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct am_checkpoint am_checkpoint;

/* A tensor of a checkpoint. The strings and the shape are valid until the checkpoint is closed. */
typedef struct am_checkpoint_tensor {
  const char* name;
  const char* dtype;    /* dtype in PyTorch, without "torch.": for example "float32" */
  const int64_t* shape; /* [dims] */
  int32_t dims;
  int32_t element_size; /* bytes of one element */
  int32_t is_state;     /* 1: an optimizer state or another tensor of the trainer; 0: a parameter */
} am_checkpoint_tensor;

/* Opens a file or folder. Returns NULL for damaged files and for files of an unknown format. */
am_checkpoint* am_checkpoint_open(const char* path);
void am_checkpoint_close(am_checkpoint* checkpoint);

/* Returns the name of the format, for example "huggingface", "dcp", "torch" or "automesh". Valid
 * until the checkpoint is closed. */
const char* am_checkpoint_format(const am_checkpoint* checkpoint);
/* Returns the training step of the checkpoint; -1 if the files do not contain it. */
int64_t am_checkpoint_step(const am_checkpoint* checkpoint);

/* Returns the number of tensors. Indices 0, 1, ... count the parameters first, then the optimizer
 * states and other tensors. Both lists are in natural order of the names: "layers.2" is before
 * "layers.10". */
int64_t am_checkpoint_count(const am_checkpoint* checkpoint);
/* Returns the index of the tensor with this name; -1 if there is none. */
int64_t am_checkpoint_find(const am_checkpoint* checkpoint, const char* name);
/* Writes the description of the tensor with this index to `*tensor`. Returns 0; -1 if no tensor has
 * this index. */
int am_checkpoint_describe(const am_checkpoint* checkpoint, int64_t index,
                           am_checkpoint_tensor* tensor);

/* Copies a box of the tensor with this index to `values`, in row-major order and in the stored
 * dtype. `first` and `count` are the box's first index and size in each dim. If `first` is NULL,
 * the box begins at index 0; if `count` is NULL, the box extends to the tensor's end. `bytes`, the
 * size of `values`, must equal the size of the box. Returns 0; -1 after an error. */
int am_checkpoint_read(const am_checkpoint* checkpoint, int64_t index, const int64_t* first,
                       const int64_t* count, void* values, size_t bytes);

/* Returns the message of the last error in the calling thread. Valid until the thread's next call
 * of a function of this interface. */
const char* am_checkpoint_error(void);

#ifdef __cplusplus
}
#endif

#endif
