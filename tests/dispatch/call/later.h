/* Ops on an asynchronous device, whose memory traps when the CPU touches it. */
#ifndef MD_TESTS_DISPATCH_LATER_H
#define MD_TESTS_DISPATCH_LATER_H

#include "dispatch/support/script.h"
#include "support/devices/async_device.h"

enum { LATER_N = 300 };

extern script_world later_world;
extern async_device later_device;

int later_set_up(void **state);
int later_tear_down(void **state);

typedef struct later_vectors {
    md_tensor y, x;
    md_arg arg[2];
} later_vectors;

/** Device memory with n values. */
void *later_alloc(const float *values, int64_t n);
/** Two vectors of n elements in the device's memory: 0, 1, 2, ... */
void later_make(later_vectors *v, int64_t n);
float later_first_of(const md_tensor *t);
md_stream later_stream(int i);
/** Waits for the device, whose scripted kernels read the op's program, then destroys the op. */
void later_finish(md_ds_op **op);

#endif
