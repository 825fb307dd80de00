/* Keeps a loaded library from changing signals, limits and the end of the process. */
#ifndef MD_DEVICE_NVRTC_KEEP_PROCESS_H
#define MD_DEVICE_NVRTC_KEEP_PROCESS_H

#include <stdbool.h>

/** From now on the library (a handle of dlopen) cannot change signal handlers and resource limits: its imports of
 * `signal`, `sigaction`, `setrlimit`, `setrlimit64` and `__cxa_atexit` are replaced by functions that report success
 * and change nothing. This affects all users of the library in the process and cannot be undone; the caller's object
 * stays loaded, too. exit() waits for jobs before it takes the library down (md_jobs_rest_at_exit). False if the object
 * has an unexpected format: then nothing is changed. Thread-safe; cheap if repeated.
 *
 * Why: while it compiles, NVRTC 13.0 handles SIGINT and SIGTERM of the whole process and calls exit() in the handler.
 * Threads that compile at the same time, and its second copy, each restore the handler that they found, so that NVRTC's
 * handler can stay for ever. Then the handler of a server is never called, and the process ends with "double free or
 * corruption". It also removes the limit of the stack, which threads and children that are made later inherit. And
 * exit() destroyed what NVRTC makes while it compiles, in front of all that was registered before. */
bool md_dev_keep_process(void *library);

#endif
