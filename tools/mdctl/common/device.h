/* The device of a context, as md_info tells it. */
#ifndef MDCTL_DEVICE_H
#define MDCTL_DEVICE_H

#include "common/cli.h"

typedef struct cli_device {
    char name[32]; /* "host", "cuda:0" */
    bool is_gpu;
    int threads;
    double cold_bytes; /* memory that takes all else out of a GPU's cache */
} cli_device;

cli_device device_of(md_context *context);

#endif
