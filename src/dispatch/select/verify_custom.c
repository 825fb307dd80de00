/* Runs custom kernels on small shapes, and compares outputs, inputs and the bytes around them with the reference. */
#include "dispatch/select/select.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/additions.h"
#include "dispatch/space/points.h"
#include "family/custom/custom.h"
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, MOST_SHAPES = 3 };
static const double MOST_WORK = 1e8; /* the reference does a few million operations a second */

/* One small shape with its data. */
typedef struct trial {
    md_ds_op *op;
    md_kn_shape shape;
    md_kn_call call;
    /* Contiguous tensors: before the run, by the reference, and by the kernel (with guards on both sides). */
    char *given[MD_FX_MAX_TENSORS], *right[MD_FX_MAX_TENSORS], *made[MD_FX_MAX_TENSORS];
    void *memory[MD_FX_MAX_TENSORS]; /* on the device, with guards */
    size_t n_bytes[MD_FX_MAX_TENSORS];
} trial;

/* ---- Shapes */

/* All dynamic dims are v, except for the odd_one-th, which is 3; odd_one -1: none. */
static void sizes_of(int64_t size[MD_FX_MAX_DIMS], const md_ds_op *op, int64_t v, int32_t odd_one)
{
    const md_fx_formula *f = op->formula;
    int32_t k = 0;
    for (int32_t d = 0; d < f->n_dims; d++) {
        int64_t wanted = odd_one >= 0 && k == odd_one ? 3 : v;
        size[d] = f->dim[d].size >= 0 ? f->dim[d].size : MD_MAX(f->dim[d].lo, MD_MIN(f->dim[d].hi, wanted));
        k += f->dim[d].size < 0;
    }
}

/* Odd sizes first. */
static int32_t find_shapes(md_kn_shape out[MOST_SHAPES], const md_ds_op *op, const md_bd_variant *v)
{
    static const int64_t side[] = {37, 5, 64, 256, 1, 1024, 128, 512, 2048, 4096, 16384};
    int32_t n = 0;
    for (int32_t i = 0; i < MD_COUNT(side) && n < MOST_SHAPES; i++)
        for (int32_t odd_one = -1; odd_one < 3 && n < MOST_SHAPES; odd_one++) {
            int64_t size[MD_FX_MAX_DIMS] = {0};
            sizes_of(size, op, side[i], odd_one);
            if (!(md_ds_work(&op->stage[0].target, size) <= MOST_WORK))
                continue;
            md_tn_shape(&out[n], op->program, size);
            bool is_new = n == 0 || memcmp(out[n].size, out[n - 1].size, sizeof out[n].size) != 0;
            n += is_new && !md_kn_envelope_miss(&v->envelope, &out[n]);
        }
    return n;
}

/* ---- Data */

static int64_t points_of(const trial *t, int32_t tensor)
{
    int64_t n = 1;
    for (int32_t a = 0; a < t->op->formula->tensor[tensor].rank; a++)
        n *= t->shape.extent[tensor][a];
    return n;
}

static void fill(trial *t, int32_t tensor, uint64_t *random, int64_t most)
{
    md_dtype type = t->op->formula->tensor[tensor].dtype;
    for (int64_t i = 0, n = points_of(t, tensor); i < n; i++) {
        *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t bits = *random >> 32;
        if (md_dtype_is_real(type))
            md_dtype_store(type, t->given[tensor], i, (double)bits / (double)(UINT64_C(1) << 30) - 2.0);
        else
            md_dtype_store_int(type, t->given[tensor], i,
                               type == MD_BOOL ? (int64_t)(bits & 1) : (int64_t)(bits % (uint64_t)most));
    }
}

/* Integers may be indices, so they stay below the shortest dim. */
static int64_t least_size(const trial *t)
{
    int64_t least = INT64_MAX;
    for (int32_t d = 0; d < t->op->formula->n_dims; d++)
        least = MD_MIN(least, MD_MAX(t->shape.size[d], 1));
    return MD_MIN(least, 100);
}

static md_status make_tensor(trial *t, int32_t i, uint64_t *random)
{
    md_dev *dev = t->op->runtime->dev;
    size_t n = t->n_bytes[i] = (size_t)points_of(t, i) * md_dtype_size(t->op->formula->tensor[i].dtype);
    t->given[i] = malloc(n + 1);
    t->right[i] = malloc(n + 1);
    t->made[i] = malloc(n + 2 * GUARD);
    if (!t->given[i] || !t->right[i] || !t->made[i])
        return md_fail_memory();
    fill(t, i, random, least_size(t));
    memcpy(t->right[i], t->given[i], n);
    MD_TRY(dev->ops->alloc(&t->memory[i], dev, n + 2 * GUARD));
    t->call.data[i] = (char *)t->memory[i] + GUARD;
    return MD_OK;
}

static md_status evaluate(trial *t)
{
    const md_fx_formula *f = t->op->formula;
    md_fx_fault fault = {0};
    md_fx_binding *b = calloc(1, sizeof *b);
    if (!b)
        return md_fail_memory();
    memcpy(b->size, t->shape.size, (size_t)f->n_dims * sizeof *b->size);
    for (int32_t i = 0; i < f->n_tensors; i++)
        if (t->right[i])
            b->tensor[i] = md_tensor_make(t->right[i], f->tensor[i].dtype, f->tensor[i].rank, t->shape.extent[i]);
    for (int32_t i = 0; i < f->n_scalars; i++) {
        b->real[i] = 0.5;
        b->integer[i] = 1;
        t->call.scalar[i] = f->scalar[i].type == MD_I64 ? (md_kn_word){.i = 1} : (md_kn_word){.d = 0.5};
    }
    md_status s = md_fx_evaluate(f, b, &fault);
    free(b);
    return s;
}

static void trial_finish(trial *t)
{
    md_dev *dev = t->op->runtime->dev;
    for (int32_t i = 0; i < t->op->formula->n_tensors; i++) {
        free(t->given[i]);
        free(t->right[i]);
        free(t->made[i]);
        if (t->memory[i])
            dev->ops->free(dev, t->memory[i]);
    }
    free(t);
}

static md_status trial_make(trial **out, md_ds_op *op, const md_kn_shape *shape)
{
    uint64_t random = 20;
    trial *t = calloc(1, sizeof *t);
    if (!t)
        return md_fail_memory();
    t->op = op;
    t->shape = *shape;
    t->call = (md_kn_call){.shape = &t->shape, .device = op->runtime->dev, .threads = op->runtime->dev->facts.threads};
    md_status s = MD_OK;
    for (int32_t i = 0; i < op->formula->n_tensors && s == MD_OK; i++)
        if (op->formula->tensor[i].role != MD_FX_TEMP)
            s = make_tensor(t, i, &random);
    if (s == MD_OK)
        s = evaluate(t);
    if (s != MD_OK) {
        trial_finish(t);
        return s;
    }
    *out = t;
    return MD_OK;
}

/* ---- Results */

static md_status bring(trial *t, bool there)
{
    md_dev *dev = t->op->runtime->dev;
    for (int32_t i = 0; i < t->op->formula->n_tensors; i++) {
        size_t n = t->n_bytes[i] + 2 * GUARD;
        if (!t->memory[i])
            continue;
        if (there) {
            memset(t->made[i], 0xa5, n);
            memcpy(t->made[i] + GUARD, t->given[i], t->n_bytes[i]);
            MD_TRY(dev->ops->copy(dev, t->memory[i], t->made[i], n));
        } else {
            MD_TRY(dev->ops->copy(dev, t->made[i], t->memory[i], n));
        }
    }
    return MD_OK;
}

static bool is_right(double made, double right, double tolerance)
{
    if (isnan(right) || isinf(right))
        return isnan(right) ? isnan(made) : made == right;
    return fabs(made - right) <= tolerance * fmax(1, fabs(right));
}

/* False: `text` says what is wrong. */
static bool compare(char *text, size_t n_text, const trial *t, int32_t i)
{
    const md_fx_tensor *x = &t->op->formula->tensor[i];
    const char *made = t->made[i] + GUARD;
    for (size_t k = 0; k < 2 * GUARD; k++) {
        size_t at = k < GUARD ? k : t->n_bytes[i] + k;
        if ((unsigned char)t->made[i][at] != 0xa5) {
            snprintf(text, n_text, "it wrote beside '%s'", x->name);
            return false;
        }
    }
    if (x->role != MD_FX_OUTPUT && memcmp(made, t->given[i], t->n_bytes[i])) {
        snprintf(text, n_text, "it wrote into '%s', which is an input", x->name);
        return false;
    }
    const double allowed = md_fa_allowed_error(x->dtype, md_fa_additions(&t->op->stage[0].target, t->shape.size));
    for (int64_t k = 0, n = x->role == MD_FX_OUTPUT ? points_of(t, i) : 0; k < n; k++) {
        double m = md_dtype_load(x->dtype, made, k), r = md_dtype_load(x->dtype, t->right[i], k);
        if (!is_right(m, r, allowed)) {
            snprintf(text, n_text, "element %lld of '%s' is %.9g, not %.9g", (long long)k, x->name, m, r);
            return false;
        }
    }
    return true;
}

static bool try_on(char *text, size_t n_text, trial *t, const md_bd_variant *v)
{
    md_dev *dev = t->op->runtime->dev;
    md_kn_geometries geometry;
    md_fa_geometry_of(&geometry, v->family, &v->target, &v->config, &t->shape);
    md_status s = bring(t, true);
    if (s == MD_OK)
        s = md_bd_variant_run(v, &geometry, NULL, &t->call);
    if (s == MD_OK)
        s = dev->ops->sync(dev, NULL);
    if (s == MD_OK)
        s = bring(t, false);
    if (s != MD_OK) {
        snprintf(text, n_text, "it could not run: %s", md_last_error());
        return false;
    }
    for (int32_t i = 0; i < t->op->formula->n_tensors; i++)
        if (t->memory[i] && !compare(text, n_text, t, i))
            return false;
    return true;
}

static void shape_text(char *out, size_t n_out, const md_ds_op *op, const md_kn_shape *shape)
{
    size_t used = 0;
    out[0] = '\0';
    for (int32_t d = 0; d < op->formula->n_dims && used < n_out; d++)
        if (op->formula->dim[d].size < 0)
            used += (size_t)snprintf(out + used, n_out - used, "%s%s=%lld", used ? " " : "", op->formula->dim[d].name,
                                     (long long)shape->size[d]);
}

static md_status verify(md_ds_op *op, md_bd_variant *v)
{
    md_kn_shape shape[MOST_SHAPES];
    char text[160] = "", at[96] = "", why[288];
    int32_t n = find_shapes(shape, op, v);
    bool is_good = n > 0;
    if (n == 0)
        snprintf(text, sizeof text, "its envelope takes no shape that is small enough to be verified");
    for (int32_t i = 0; i < n && is_good; i++) {
        trial *t = NULL;
        MD_TRY(trial_make(&t, op, &shape[i]));
        is_good = try_on(text, sizeof text, t, v);
        shape_text(at, sizeof at, op, &shape[i]);
        trial_finish(t);
    }
    if (is_good)
        return MD_OK;
    snprintf(why, sizeof why, "quarantined: %s%s%s", text, at[0] ? " at " : "", at);
    md_bd_variant_fail(v, why);
    md_log_at(op->runtime->log, MD_LOG_WARN, "op %s: %s: %s", op->name, v->name, why);
    return MD_OK;
}

md_status md_ds_custom_verify(md_ds_op *op)
{
    md_ds_pool *pool = &op->stage[0];
    for (int32_t k = 0; op->customs && k < op->customs->n; k++) {
        const md_bd_variant *failed = NULL;
        int32_t n_built = 0;
        for (int32_t i = 0; i < pool->n_variants; i++) {
            if (pool->variant[i]->config.custom != k + 1)
                continue;
            if (md_bd_variant_wait(pool->variant[i]) != MD_OK) {
                failed = failed ? failed : pool->variant[i];
                continue;
            }
            n_built++;
            MD_TRY(verify(op, pool->variant[i]));
        }
        if (failed && n_built == 0 && pool->target.facts->can_compile)
            return md_fail(MD_COMPILE, "custom kernel '%s' does not compile: %s", op->customs->custom[k].name,
                           failed->failure);
    }
    return MD_OK;
}
