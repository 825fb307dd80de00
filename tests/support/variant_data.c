/* Data for running variants: sizes, tensors between guard bands in any layout, values, and copies on a device. */
#include "support/variant_internal.h"

#include "support/check.h"

#include "base/dtype.h"
#include "base/status.h"

#include <math.h>

enum { GUARD = 128 };

/* With AddressSanitizer (and kernels compiled with it: MD_CC) reads beside a tensor are caught too. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#endif

static md_status set_size(void *user, const char *name, int64_t lo, int64_t hi)
{
    variant_bench *b = user;
    (void)hi;
    for (int32_t d = 0; d < b->formula->n_dims; d++)
        if (strcmp(b->formula->dim[d].name, name) == 0)
            b->size[d] = lo;
    return MD_OK;
}

/* How long an axis must be. */
static int64_t axis_length(const variant_bench *b, int32_t t, int32_t a)
{
    const md_fx_tensor *tensor = &b->formula->tensor[t];
    int64_t dim = b->size[tensor->dim[a]], needed = 0;
    if (!tensor->at_least[a])
        return dim;
    for (int32_t i = 0; i < b->formula->n_reaches; i++) {
        const md_fx_reach *r = &b->formula->reach[i];
        int64_t lo = 0, hi = 0;
        if (r->tensor == t && r->axis == a && md_fx_range(&lo, &hi, b->formula, b->size, r) && lo <= hi)
            needed = MD_MAX(needed, hi + 1);
    }
    return MD_MAX(MD_MAX(needed, dim), b->c->high > 1 ? b->c->high : 1);
}

static void set_strides(md_tensor *t, variant_layout layout)
{
    int64_t stride = 1;
    if (layout == VARIANT_TURNED) {
        for (int32_t a = 0; a < t->rank; a++) {
            t->stride[a] = stride;
            stride *= MD_MAX(t->size[a], 1);
        }
        return;
    }
    for (int32_t a = t->rank - 1; a >= 0; a--) {
        if (layout == VARIANT_SPREAD && a == t->rank - 1)
            stride = 3;
        t->stride[a] = stride;
        stride *= MD_MAX(t->size[a], 1);
        if (layout != VARIANT_PACKED)
            stride += 5;
    }
}

size_t variant_span(const md_tensor *t)
{
    int64_t last = 0;
    for (int32_t a = 0; a < t->rank; a++) {
        if (t->size[a] == 0)
            return 0;
        last += (t->size[a] - 1) * t->stride[a];
    }
    return ((size_t)last + 1) * md_dtype_size(t->dtype);
}

static double special(uint64_t r)
{
    static const double values[] = {NAN,   INFINITY, -INFINITY, 0.0,  -0.0, 1e-41,
                                    -3e-6, 65519.0,  65520.0,   3e38, 1e6,  255.6};
    return values[r % MD_COUNT(values)];
}

static double uniform(variant_bench *b)
{
    return (double)(check_random(&b->random) >> 11) * 0x1p-53;
}

static void fill(variant_bench *b, const md_tensor *t, int64_t i)
{
    double scale = b->c->scale != 0 ? b->c->scale : 2.0;
    bool has_range = b->c->low != 0 || b->c->high != 0;
    int64_t low = has_range ? b->c->low : -9, high = has_range ? b->c->high : 10;
    if (t->dtype == MD_BOOL)
        md_dtype_store_int(t->dtype, t->data, i, (int64_t)(check_random(&b->random) & 1));
    else if (!md_dtype_is_real(t->dtype))
        md_dtype_store_int(t->dtype, t->data, i, low + (int64_t)(check_random(&b->random) % (uint64_t)(high - low)));
    else if (b->c->has_specials && check_random(&b->random) % 8 == 0)
        md_dtype_store(t->dtype, t->data, i, special(check_random(&b->random)));
    else
        md_dtype_store(t->dtype, t->data, i, (uniform(b) * 2 - 1) * scale);
}

/* Elements one after the other, gaps included. */
static bool make_tensor(variant_bench *b, int32_t t)
{
    const md_fx_tensor *tensor = &b->formula->tensor[t];
    bool is_temp = tensor->role == MD_FX_TEMP;
    md_tensor *out = &b->tensor[t];
    out->dtype = tensor->dtype;
    out->rank = tensor->rank;
    for (int32_t a = 0; a < out->rank; a++)
        out->size[a] = axis_length(b, t, a);
    set_strides(out, is_temp ? VARIANT_PACKED : b->c->layout);
    size_t item = md_dtype_size(out->dtype), shift = !is_temp && b->c->layout != VARIANT_PACKED ? item : 0;
    buffer *buf = &b->buffer[t];
    buf->n_bytes = variant_span(out) + 2 * GUARD + 64 + shift;
    if (posix_memalign((void **)&buf->bytes, 64, buf->n_bytes) != 0 || !(buf->before = malloc(buf->n_bytes)))
        return false;
    out->data = buf->bytes + GUARD + shift;
    if (b->is_left_out) /* nobody reads it */
        return true;
    memset(buf->bytes, 0x5a, buf->n_bytes);
    for (size_t i = 0; i < variant_span(out) / item; i++)
        fill(b, out, (int64_t)i);
    memcpy(buf->before, buf->bytes, buf->n_bytes);
    return true;
}

/* The program, with the axes of products' operands moved where the case says so. */
static bool make_program(variant_bench *b)
{
    md_fx_formula *written = NULL;
    bool ok = md_st_program_create(&b->program, b->formula) == MD_OK &&
              (!b->c->turns || md_st_turn(&written, b->formula, b->program) == MD_OK);
    if (written) {
        md_st_program_destroy(&b->program);
        ok = md_st_program_create(&b->program, b->formula) == MD_OK;
    }
    free(written);
    return ok;
}

bool variant_prepare(variant_bench *b, char *text, size_t n_text)
{
    const variant_case *c = b->c;
    md_fx_options options = {.dtype = c->dtype, .sizes = c->sizes, .bounds = c->bounds};
    b->random = c->seed + 1;
    bool ok = md_fx_formula_create(&b->formula, c->formula, &options) == MD_OK && make_program(b);
    for (int32_t d = 0; ok && d < b->formula->n_dims; d++)
        b->size[d] = b->formula->dim[d].size >= 0 ? b->formula->dim[d].size : 0;
    ok = ok && (!c->dims || md_fx_sizes_parse(c->dims, set_size, b) == MD_OK);
    for (int32_t t = 0; ok && t < b->formula->n_tensors; t++)
        ok = make_tensor(b, t);
    for (int32_t i = 0; ok && i < b->formula->n_args; i++) {
        md_fx_arg a = b->formula->args[i];
        const md_fx_scalar *scalar = a.is_scalar ? &b->formula->scalar[a.id] : NULL;
        b->arg[i] = !scalar                  ? md_t(&b->tensor[a.id])
                    : scalar->is_size        ? md_i(b->size[scalar->dim])
                    : scalar->type == MD_I64 ? md_i(3 + a.id)
                                             : md_s(0.5 + a.id);
    }
    ok = ok && md_fx_bind(&b->binding, b->formula, b->arg, b->formula->n_args) == MD_OK;
    if (!ok)
        snprintf(text, n_text, "%s: %s", c->formula, md_last_error());
    return ok;
}

bool variant_is_apart(const variant_bench *b)
{
    return b->dev->ops->workspace != NULL;
}

/* The buffers as they are go to the device, a report of its own with them. */
md_status variant_send(variant_bench *b, md_dev_report *report)
{
    md_dev *dev = b->dev;
    b->call.report = &b->report;
    if (!variant_is_apart(b))
        return MD_OK;
    for (int32_t t = 0; t < b->formula->n_tensors; t++) {
        void *p = NULL;
        MD_TRY(dev->ops->alloc(&p, dev, b->buffer[t].n_bytes));
        b->device[t] = p;
        MD_TRY(dev->ops->copy(dev, p, b->buffer[t].bytes, b->buffer[t].n_bytes));
        b->call.data[t] = b->device[t] + ((char *)b->tensor[t].data - b->buffer[t].bytes);
    }
    MD_TRY(dev->ops->report_create(report, dev));
    if (dev->ops->counters)
        MD_TRY(dev->ops->counters(&b->call.counters, dev, NULL));
    b->call.report = report->kernel;
    return MD_OK;
}

md_status variant_bring_back(variant_bench *b, const md_dev_report *report)
{
    md_dev *dev = b->dev;
    if (!variant_is_apart(b))
        return MD_OK;
    md_status s = dev->ops->sync(dev, NULL);
    for (int32_t t = 0; t < b->formula->n_tensors; t++) {
        if (s == MD_OK && b->device[t])
            s = dev->ops->copy(dev, b->buffer[t].bytes, b->device[t], b->buffer[t].n_bytes);
        if (b->device[t])
            dev->ops->free(dev, b->device[t]);
    }
    if (report->host && atomic_load(&report->host->is_set)) {
        b->report.tensor = report->host->tensor;
        b->report.axis = report->host->axis;
        b->report.value = report->host->value;
        atomic_store(&b->report.is_set, 1);
    }
    return s;
}

void variant_guard(const variant_bench *b, bool on)
{
    for (int32_t t = 0; t < b->formula->n_tensors; t++) {
        const buffer *buf = &b->buffer[t];
        char *end = (char *)b->tensor[t].data + variant_span(&b->tensor[t]);
        ASAN_UNPOISON_MEMORY_REGION(buf->bytes, buf->n_bytes);
        if (!on)
            continue;
        ASAN_POISON_MEMORY_REGION(buf->bytes, (size_t)((char *)b->tensor[t].data - buf->bytes));
        ASAN_POISON_MEMORY_REGION(end, (size_t)(buf->bytes + buf->n_bytes - end));
    }
}
