/* A device around another that behaves as a GPU does, so that all above devices can be tested without one: its
 * memory has addresses of its own that trap when the CPU touches them; launches only queue up, and run when
 * something waits for their stream; workspace, tensor copies, reports, times and captures go through the device's
 * functions. The inner device's kernels see ordinary memory.
 *
 * What a caller must not do while a stream is captured (allocate, copy, wait, compile, load, time) fails and is
 * counted. */
#ifndef MD_TESTS_SUPPORT_DEVICES_ASYNC_DEVICE_H
#define MD_TESTS_SUPPORT_DEVICES_ASYNC_DEVICE_H

#include "device/device.h"

#include <pthread.h>

enum { ASYNC_STREAMS = 8, ASYNC_REPORTS = 1024 };

typedef struct async_work async_work;

typedef struct async_stream {
    md_stream stream;
    bool is_used, is_capturing;
    bool is_stuck; /* something on it does not end */
    void *workspace, *counters;
    size_t n_bytes;
    async_work *first, *last;
    async_work *captured, *last_captured; /* the graph of the last capture */
} async_stream;

typedef struct async_device {
    md_dev base; /* first */
    md_dev *inner;
    char *there, *here; /* the memory as the device's addresses, which trap, and as the CPU may see it */
    int file;
    size_t space; /* bytes of addresses */
    size_t used;
    pthread_mutex_t lock;
    async_stream stream[ASYNC_STREAMS];
    /* whoever asks for a mark's time finds the work before it done, as on a device that is not busy */
    bool runs_at_marks;
    double (*clock)(void *user); /* us; NULL: the real one. Asked when a mark is passed */
    void *clock_user;
    md_dev_report report[ASYNC_REPORTS];
    int32_t n_reports;
    _Atomic bool refuses_changes; /* of kernels of graphs */
    _Atomic bool refuses_graphs; /* as if its memory were short */
    /* what was done */
    _Atomic int64_t n_launches, n_syncs, n_times, n_marks, n_allocs, n_copies, n_tensor_copies, n_checks, n_violations,
        n_pushed, n_popped, n_graph_launches, n_graph_changes;
} async_device;

/** Wraps a device, which it then owns; false where the address space is short. */
bool async_device_init(async_device *out, md_dev *inner);
/** Begins or ends the capture of a stream. What is enqueued in between is kept, and does not run. */
void async_device_capture(async_device *dev, md_stream stream, bool begin);
/** Enqueues what was captured last from the stream once more. */
void async_device_replay(async_device *dev, md_stream stream);
/** Whether p is an address of the device's memory. */
bool async_device_owns(const async_device *dev, const void *p);

#endif
