/* Packages: a model in one file. It has the model's calls and their order, its weights, and its kernels. Who opens it
 * needs neither a compiler nor the program that the model was written in. man 3 multidispatch is the guide.
 *
 * `multidispatch.package` in Python makes one of a model of PyTorch. A file belongs to one version of the library and
 * to devices of one kind: those that it was made on. The rules of md/md.h hold. In addition:
 *  - A package is opened as its kernels are: only if no one but this user or root can write the file.
 *  - Threads: all functions may be called at once, md_package_close excepted. Calls of one package wait for each other.
 * SPDX-License-Identifier: MIT */
#ifndef MD_PACKAGE_H
#define MD_PACKAGE_H

#include <md/md.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct md_package md_package;

/** Opens a package. `options` are those of the context that it makes for itself, or NULL; of these `device`, `hints`
 * and the bundles are the package's. Weights are copied to the device.
 * @return MD_NOT_FOUND, MD_IO (what is wrong with the file), MD_CORRUPT (what it says makes no sense), MD_UNSUPPORTED:
 * made by another version, for a device that is not here, or with steps that only PyTorch can run; the message names
 * them. */
MD_API md_status md_package_open(md_package **out, const char *path, const md_context_options *options);
/** Waits for its work, and frees it. */
MD_API void md_package_close(md_package **package);
/** The context in which it runs: for md_alloc, md_copy, md_sync, statistics. It ends with the package. */
MD_API md_context *md_package_context(md_package *package);
/** How many tensors a call reads, and writes. */
MD_API int32_t md_package_n_inputs(const md_package *package);
MD_API int32_t md_package_n_outputs(const md_package *package);
/** The outputs for these inputs: dtype, sizes and strides; `data` is NULL. Of the inputs data is not read.
 * @return MD_INVALID_ARGUMENT for inputs that do not fit the model; the message names the input. */
MD_API md_status md_package_outputs(md_tensor *outputs, md_package *package, const md_tensor *inputs);
/** Computes the outputs. Inputs and outputs lie in the package's device's memory, with the strides that the model was
 * made with (contiguous, as a rule). On a GPU the work is enqueued on `stream`.
 * @return MD_INVALID_ARGUMENT for tensors that do not fit, and what md_sequence_run returns. */
MD_API md_status md_package_call(md_package *package, md_stream stream, const md_tensor *inputs,
                                 const md_tensor *outputs);
/** What is in the file, as JSON: all but weights and kernels. */
MD_API md_status md_package_describe(md_package *package, md_write_fn write, void *user);

/** A tensor of constants for a package. */
typedef struct md_package_weight {
    const void *data; /**< in the host's memory, contiguous bytes */
    int64_t n_bytes;
} md_package_weight;
/** Writes a package: makes all its kernels in a context of its own, and prepares the sizes of the plan's examples.
 * `plan` is JSON, which src/package/README.md describes. An older file is replaced.
 * @return what md_package_open returns for a plan, and MD_IO, MD_COMPILE. */
MD_API md_status md_package_write(const char *path, const char *plan, const md_package_weight *weights,
                                  int32_t n_weights, const md_context_options *options);

#ifdef __cplusplus
}
#endif
#endif
