/* Reads values of index tensors at random places of some calls. */
#include "dispatch/call/index_sample.h"

#include "base/dtype.h"
#include "base/task/fork.h"
#include "base/status.h"
#include "tune/bench/data.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 8 * MD_DS_INDEX_RUN * 8 }; /* bytes from the first to the last value of a run */

struct md_ds_indices {
    pthread_mutex_t lock;
    uint64_t state; /* of random numbers */
    int64_t most;
    int32_t n;
    md_ds_index_sample sample[MD_DS_INDEX_TENSORS];
};

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

md_status md_ds_indices_create(md_ds_indices **out, const md_fx_formula *formula, int32_t most)
{
    const uint32_t tensors = most > 0 ? md_tn_data_index_tensors(formula) : 0;
    *out = NULL;
    if (!tensors)
        return MD_OK;
    md_ds_indices *indices = calloc(1, sizeof *indices);
    if (!indices)
        return md_fail_memory();
    md_mutex_init(&indices->lock);
    indices->most = most;
    indices->state = 1;
    *out = indices;
    for (int32_t t = 0; t < formula->n_tensors && indices->n < MD_DS_INDEX_TENSORS; t++) {
        if (!(tensors >> t & 1))
            continue;
        md_ds_index_sample *s = &indices->sample[indices->n];
        s->tensor = t;
        s->value = malloc((size_t)most * sizeof *s->value);
        if (!s->value) {
            md_ds_indices_destroy(out);
            return md_fail_memory();
        }
        indices->n++;
    }
    return MD_OK;
}

void md_ds_indices_destroy(md_ds_indices **indices)
{
    md_ds_indices *own = *indices;
    *indices = NULL;
    if (!own)
        return;
    for (int32_t i = 0; i < own->n; i++)
        free(own->sample[i].value);
    md_mutex_finish(&own->lock);
    free(own);
}

/* Neighbours along the last axis. */
typedef struct run {
    const char *from;
    int64_t n, step; /* in elements */
} run;

static bool choose_run(run *r, uint64_t *state, const md_tensor *x, int64_t element)
{
    const int32_t last = x->rank - 1;
    if (md_dtype_is_packed(x->dtype))
        return false;
    int64_t at = 0;
    for (int32_t a = 0; a < x->rank; a++)
        if (x->size[a] <= 0)
            return false;
    r->n = last < 0 ? 1 : MD_MIN(x->size[last], MD_DS_INDEX_RUN);
    r->step = last < 0 ? 0 : x->stride[last];
    for (int32_t a = 0; a <= last; a++)
        at += (int64_t)(next(state) % (uint64_t)(x->size[a] - (a == last ? r->n - 1 : 0))) * x->stride[a];
    r->from = (const char *)x->data + at * element;
    return x->data && r->step >= 0 && ((r->n - 1) * r->step + 1) * element <= MOST_BYTES;
}

/* Host memory is read in place; a GPU's is copied, after the work in its stream. */
static bool fetch(int64_t *value, md_dev *dev, md_stream stream, const run *r, md_dtype dtype)
{
    const size_t n_bytes = (size_t)((r->n - 1) * r->step + 1) * md_dtype_size(dtype);
    char bytes[MOST_BYTES];
    const void *at = r->from;
    if (dev->ops->copy_background) {
        if (dev->ops->copy_background(dev, stream, bytes, r->from, n_bytes) != MD_OK)
            return false;
        at = bytes;
    }
    for (int64_t i = 0; i < r->n; i++)
        value[i] = md_dtype_load_int(dtype, at, i * r->step);
    return true;
}

/* Reservoir sampling: every run has the same chance to be kept. */
static void keep(md_ds_indices *indices, md_ds_index_sample *s, const int64_t *value, int64_t n)
{
    n = MD_MIN(n, indices->most);
    s->seen += n;
    if (s->n < indices->most) {
        const int64_t fits = MD_MIN(n, indices->most - s->n);
        memcpy(s->value + s->n, value, (size_t)fits * sizeof *value);
        s->n += fits;
    } else if ((int64_t)(next(&indices->state) % (uint64_t)s->seen) < indices->most) {
        const int64_t at = (int64_t)(next(&indices->state) % (uint64_t)(indices->most / n)) * n;
        memcpy(s->value + at, value, (size_t)n * sizeof *value);
    }
}

void md_ds_indices_take(md_ds_indices *indices, const md_ds_op *op, md_stream stream, const md_fx_binding *binding)
{
    int64_t value[MD_DS_INDEX_RUN];
    if (md_ds_is_capturing(op->runtime, stream))
        return;
    pthread_mutex_lock(&indices->lock);
    for (int32_t i = 0; i < indices->n; i++) {
        md_ds_index_sample *s = &indices->sample[i];
        run r;
        if (choose_run(&r, &indices->state, &binding->tensor[s->tensor],
                       (int64_t)md_dtype_size(op->formula->tensor[s->tensor].dtype)) &&
            fetch(value, op->runtime->dev, stream, &r, op->formula->tensor[s->tensor].dtype))
            keep(indices, s, value, r.n);
    }
    pthread_mutex_unlock(&indices->lock);
}

bool md_ds_indices_get(md_ds_index_sample *out, md_ds_indices *indices, int32_t i)
{
    if (!indices || i >= indices->n)
        return false;
    pthread_mutex_lock(&indices->lock);
    *out = indices->sample[i];
    out->value = malloc((size_t)MD_MAX(out->n, 1) * sizeof *out->value);
    if (out->value)
        memcpy(out->value, indices->sample[i].value, (size_t)out->n * sizeof *out->value);
    pthread_mutex_unlock(&indices->lock);
    return out->value != NULL;
}
