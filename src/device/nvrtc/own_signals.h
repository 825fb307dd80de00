/* Keeps a loaded library from handling the signals of the process. */
#ifndef MD_DEVICE_NVRTC_OWN_SIGNALS_H
#define MD_DEVICE_NVRTC_OWN_SIGNALS_H

#include <stdbool.h>

/** From now on the library (a handle of dlopen) cannot change signal handlers: its imports of `signal` and `sigaction`
 * are replaced by functions that report success and change nothing. This affects all users of the library in the
 * process and cannot be undone; the caller's object stays loaded, too. False if the object has an unexpected format:
 * then nothing is changed. Thread-safe; cheap if repeated.
 *
 * Why: while it compiles, NVRTC 13.0 handles SIGINT and SIGTERM of the whole process and calls exit() in the handler.
 * Threads that compile at the same time, and its second copy, each restore the handler that they found, so that NVRTC's
 * handler can stay for ever. Then the handler of a server is never called, and the process ends with "double free or
 * corruption". */
bool md_dev_own_signals(void *library);

#endif
