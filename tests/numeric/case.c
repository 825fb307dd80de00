/* Calls of ops whose values depend on their place in the tensor only, not on where the batch begins. */
#include "numeric/case.h"

#include "support/check.h"

#include <math.h>

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static bool is_batch(const char *batch, const char *dim)
{
    size_t n = strlen(dim);
    for (const char *at = batch; n && (at = strstr(at, dim)); at++)
        if ((at == batch || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

/* Values of many sizes, so that the order of additions shows. */
static double value_of(uint64_t h)
{
    double v = (double)(h >> 40) / (double)(1 << 24) * 2 - 1;
    return h % 7 == 0 ? v * 8 : v;
}

static void put(char *at, md_dtype type, uint64_t h, int64_t most)
{
    float f = (float)value_of(h);
    uint32_t bits;
    memcpy(&bits, &f, 4);
    switch (type) {
    case MD_F32:
        memcpy(at, &f, 4);
        break;
    case MD_F64:
        memcpy(at, &(double){value_of(h)}, 8);
        break;
    case MD_BF16:
        memcpy(at, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
        break;
    case MD_F16: /* 0.5 to 1 and their negatives: bits are easily had */
        memcpy(at, &(uint16_t){(uint16_t)((h >> 50 & 1) << 15 | 14 << 10 | (h >> 20 & 1023))}, 2);
        break;
    case MD_I64:
        memcpy(at, &(int64_t){(int64_t)(h >> 8) % most}, 8);
        break;
    case MD_I32:
        memcpy(at, &(int32_t){(int32_t)((int64_t)(h >> 8) % most)}, 4);
        break;
    default:
        *at = (char)(h & 1);
    }
}

static int64_t points_of(const md_tensor *t)
{
    int64_t n = 1;
    for (int32_t a = 0; a < t->rank; a++)
        n *= t->size[a];
    return n;
}

/* Element i of a tensor without gaps, as a number that does not change with the batch. */
static uint64_t place_of(const md_tensor *t, const md_arg_info *info, const char *batch, int64_t first, int64_t i,
                         int32_t which)
{
    uint64_t h = mix(12345, (uint64_t)which);
    for (int32_t a = t->rank - 1; a >= 0; a--) {
        int64_t x = i % t->size[a];
        i /= t->size[a];
        h = mix(h, (uint64_t)(x + (is_batch(batch, info->dim[a]) ? first : 0)));
    }
    return mix(h, 77);
}

static void fill(numeric_call *c, int32_t i, const char *batch)
{
    md_tensor *t = &c->tensor[i];
    size_t item = md_dtype_size(t->dtype);
    int64_t n = points_of(t);
    for (int64_t k = 0; k < n; k++)
        put(c->image[i] + (size_t)k * item, t->dtype, place_of(t, &c->info[i], batch, c->first, k, i), 50);
}

/* The op's names, for as long as the call lives. */
static void keep_names(md_arg_info *info)
{
    info->name = strdup(info->name);
    for (int32_t a = 0; a < info->rank; a++)
        info->dim[a] = strdup(info->dim[a]);
}

static void free_names(md_arg_info *info)
{
    free((char *)info->name);
    for (int32_t a = 0; a < info->rank; a++)
        free((char *)info->dim[a]);
}

void numeric_call_make(numeric_call *out, md_context *context, md_op *op, const numeric_case *c, numeric_part part)
{
    const size_t offset = part.offset;
    char sizes[256];
    *out = (numeric_call){.context = context, .first = part.first, .n = md_op_n_args(op)};
    assert_true(out->n <= NUMERIC_MAX_ARGS);
    size_t used = (size_t)snprintf(sizes, sizeof sizes, "%s", c->sizes);
    for (const char *at = c->batch; *at; at += strcspn(at, " "), at += *at == ' ')
        used += (size_t)snprintf(sizes + used, sizeof sizes - used, "%s%.*s=%lld", used ? ", " : "",
                                 (int)strcspn(at, " "), at, (long long)part.n);
    for (int32_t i = 0; i < out->n; i++) {
        md_tensor *t = &out->tensor[i];
        assert_ok(md_op_arg(&out->info[i], op, i));
        keep_names(&out->info[i]);
        if (out->info[i].is_scalar) {
            out->arg[i] = md_s(0.5);
            continue;
        }
        assert_ok(md_op_tensor(t, op, i, sizes));
        size_t n = (size_t)points_of(t) * md_dtype_size(t->dtype);
        out->image[i] = malloc(n + 1);
        assert_non_null(out->image[i]);
        assert_ok(md_alloc(&out->memory[i], context, n + offset + 256));
        t->data = (char *)out->memory[i] + (256 - (uintptr_t)out->memory[i] % 256) % 256 + offset;
        if ((char *)t->data + n > (char *)out->memory[i] + n + offset + 256)
            fail_msg("no room");
        fill(out, i, c->batch);
        out->arg[i] = md_t(t);
    }
}

void numeric_call_free(numeric_call *c)
{
    for (int32_t i = 0; i < c->n; i++) {
        free_names(&c->info[i]);
        free(c->image[i]);
        md_free(c->context, c->memory[i]);
    }
}

void numeric_call_run(numeric_call *c, md_op *op)
{
    for (int32_t i = 0; i < c->n; i++)
        if (!c->info[i].is_scalar)
            assert_ok(md_copy(c->context, c->tensor[i].data, c->image[i],
                              (size_t)points_of(&c->tensor[i]) * md_dtype_size(c->tensor[i].dtype)));
    assert_ok(md_call(op, NULL, c->arg, c->n));
    assert_ok(md_sync(c->context, NULL));
    assert_ok(md_check(c->context));
}

/* The place in `whole` of element i of a tensor of `part`. */
static int64_t place_in(const md_tensor *whole, const md_tensor *part, const md_arg_info *info, const char *batch,
                        int64_t shift, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int32_t a = part->rank - 1; a >= 0; a--) {
        at += (i % part->size[a] + (is_batch(batch, info->dim[a]) ? shift : 0)) * step;
        step *= whole->size[a];
        i /= part->size[a];
    }
    return at;
}

bool numeric_same(char *text, size_t n_text, const numeric_call *whole, const numeric_call *part, const char *batch)
{
    bool same = true;
    for (int32_t i = 0; i < part->n && same; i++) {
        if (!part->info[i].is_output)
            continue;
        const md_tensor *w = &whole->tensor[i], *p = &part->tensor[i];
        size_t item = md_dtype_size(p->dtype);
        int64_t n = points_of(p);
        char *a = malloc((size_t)points_of(w) * item + 1), *b = malloc((size_t)n * item + 1);
        assert_true(a && b);
        assert_ok(md_copy(whole->context, a, w->data, (size_t)points_of(w) * item));
        assert_ok(md_copy(part->context, b, p->data, (size_t)n * item));
        for (int64_t k = 0; k < n && same; k++) {
            int64_t at = place_in(w, p, &part->info[i], batch, part->first - whole->first, k);
            same = !memcmp(a + (size_t)at * item, b + (size_t)k * item, item);
            if (!same)
                snprintf(text, n_text, "%s, element %lld of %lld", part->info[i].name, (long long)k, (long long)n);
        }
        free(a);
        free(b);
    }
    return same;
}
