/* The sum over a matrix that is larger than the cache. */
#include "common/sweep.h"

md_status sweep_make(sweep *out, md_context *context, const cli_device *device)
{
    char sizes[64];
    *out = (sweep){0};
    if (!device->is_gpu)
        return MD_OK;
    snprintf(sizes, sizeof sizes, "i=4096, j=%.0f", device->cold_bytes / 4096 / 4 + 1.0);
    md_status s = md_op_create(&out->op, context, "Y[i] = sum[j](X[i,j])", NULL);
    if (s == MD_OK)
        s = data_make(&out->data, context, out->op, sizes, 1);
    return s == MD_OK ? md_resolve(&out->launch, out->op, out->data.arg, out->data.n) : s;
}

void sweep_free(sweep *s)
{
    md_launch_destroy(&s->launch);
    data_free(&s->data);
    md_op_destroy(&s->op);
}

md_status sweep_time(double *us, const sweep *s, md_launch *const *launches, int n)
{
    double sum = 0.0;
    md_status status = s->launch ? md_launch_run(s->launch, NULL, NULL, 0) : MD_OK;
    if (status == MD_OK)
        status = md_launch_time_all(&sum, (const md_launch *const *)launches, n, NULL);
    *us = sum / n;
    return status;
}
