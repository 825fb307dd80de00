/* Keeps a loaded library from answering the process's signals. */
#ifndef MD_DEVICE_NVRTC_OWN_SIGNALS_H
#define MD_DEVICE_NVRTC_OWN_SIGNALS_H

#include <stdbool.h>

/** From now on the library of this handle of dlopen changes no signal's handler: what it imports as `signal` and
 * `sigaction` tells it what it wants to hear. All others who use the library have that, too. Whether both are so;
 * false where the object does not look as expected, and then nothing is changed. For good: the caller's own object
 * stays loaded as well. Thread-safe, cheap when repeated.
 *
 * Why: while it compiles, NVRTC (13.0) handles SIGINT and SIGTERM of the whole process, by exit() within the
 * handler; threads that compile at the same time, and its second copy (libnvrtc.alt.so), each put back what they
 * found, so that its handler can stay for good. A server's own handler is then never called, and glibc ends it with
 * "double free or corruption". */
bool md_dev_own_signals(void *library);

#endif
