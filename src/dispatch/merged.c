/* Merged ops: when one is worth having, and which calls it may serve. */
#include "dispatch/merged.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

struct md_ds_merged {
    md_ds_op *op;
    md_fx_merged_dims how;
};

/* ---- Making */

/* Kinds of stages that merged dims are to avoid. */
static int32_t count_nests(const md_st_program *p)
{
    int32_t n = 0;
    for (int32_t s = 0; s < p->n_stages; s++)
        n += p->stage[s].kind == MD_ST_NEST;
    return n;
}

static md_status is_better(bool *out, const char *merged, const md_fx_options *options, const md_st_program *old)
{
    md_fx_formula *f = NULL;
    md_st_program *p = NULL;
    md_status s = md_fx_formula_create(&f, merged, options);
    if (s == MD_OK)
        s = md_st_split(f);
    if (s == MD_OK)
        s = md_st_program_create(&p, f);
    if (s == MD_OK) {
        const int32_t nests = count_nests(p), old_nests = count_nests(old);
        *out = nests < old_nests || (nests == old_nests && p->n_stages < old->n_stages);
    }
    md_st_program_destroy(&p);
    md_fx_formula_destroy(&f);
    return s;
}

md_status md_ds_merge_text(md_strbuf *out, md_fx_merged_dims *how, const md_ds_compiled *compiled, const char *formula,
                           const md_fx_options *options)
{
    md_fx_formula *f = NULL;
    bool is_good = false;
    MD_TRY(md_fx_formula_create(&f, formula, options));
    md_status s = md_fx_merge_dims(how, f);
    if (s == MD_OK && how->n_pairs > 0) {
        const md_fx_options merged = {.dtype = options->dtype, .bounds = options->bounds};
        md_fx_print(out, f);
        s = out->failed ? md_fail_memory() : is_better(&is_good, md_strbuf_text(out), &merged, compiled->program);
    }
    if (!is_good)
        md_strbuf_finish(out);
    md_fx_formula_destroy(&f);
    return s;
}

/* The product of the sizes of all dims that became part of this one. */
static int64_t size_of(const md_fx_merged_dims *how, const md_fx_formula *f, int32_t dim, const int64_t *size)
{
    int64_t product = 1;
    for (int32_t d = 0; d < f->n_dims; d++)
        if (how->root[d] == dim && __builtin_mul_overflow(product, size[d], &product))
            return MD_DS_MOST_HINT;
    return product;
}

/* True if the dim of the merged formula has no static size. */
static bool is_dynamic(const md_fx_merged_dims *how, const md_fx_formula *f, int32_t dim)
{
    bool dynamic = false;
    for (int32_t d = 0; d < f->n_dims; d++)
        dynamic |= how->root[d] == dim && f->dim[d].size < 0;
    return dynamic;
}

/* True if indices run over the dim, or over a dim that it was merged from. */
static bool has_index(const md_fx_merged_dims *how, const md_fx_formula *f, int32_t dim)
{
    for (int32_t i = 0; i < f->n_indices; i++)
        if (how->root[f->index[i].dim] == dim)
            return true;
    return false;
}

static void print_point(md_strbuf *out, const md_fx_merged_dims *how, const md_fx_formula *f, const int64_t *size)
{
    const char *before = "";
    for (int32_t d = 0; d < f->n_dims; d++)
        if (how->root[d] == d && is_dynamic(how, f, d) && has_index(how, f, d)) {
            const int64_t n = size_of(how, f, d, size);
            md_strbuf_printf(out, "%s%s=%lld", before, f->dim[d].name, (long long)MD_MIN(n, MD_DS_MOST_HINT));
            before = ",";
        }
}

void md_ds_merge_hints(md_strbuf *out, const md_fx_merged_dims *how, const md_ds_space *space)
{
    for (int32_t h = 0; h < space->n_hints && space->n > 0; h++) {
        int64_t size[MD_FX_MAX_DIMS];
        md_ds_hint_sizes(size, space, h);
        md_strbuf_add(out, h ? " (" : "(");
        print_point(out, how, space->formula, size);
        md_strbuf_add(out, ")");
    }
}

static bool has_same_args(const md_ds_op *op, const md_ds_op *merged, const md_fx_merged_dims *how)
{
    const md_fx_formula *a = op->formula, *b = merged->formula;
    if (a->n_args != b->n_args)
        return false;
    for (int32_t i = 0; i < a->n_args; i++) {
        const int32_t t = a->args[i].id, u = b->args[i].id;
        if (a->args[i].is_scalar != b->args[i].is_scalar)
            return false;
        if (a->args[i].is_scalar) {
            if (strcmp(a->scalar[t].name, b->scalar[u].name) != 0 || a->scalar[t].type != b->scalar[u].type)
                return false;
        } else if (strcmp(a->tensor[t].name, b->tensor[u].name) != 0 || a->tensor[t].role != b->tensor[u].role ||
                   a->tensor[t].dtype != b->tensor[u].dtype || how->rank[t] != b->tensor[u].rank) {
            return false;
        }
    }
    return true;
}

bool md_ds_merge_op(md_ds_op *op, md_ds_op *merged, const md_fx_merged_dims *how)
{
    struct md_ds_merged *j = has_same_args(op, merged, how) ? malloc(sizeof *j) : NULL;
    if (!j)
        return false;
    *j = (struct md_ds_merged){merged, *how};
    op->merged = j;
    return true;
}

md_ds_op *md_ds_unmerge_op(md_ds_op *op)
{
    md_ds_op *merged = op->merged ? op->merged->op : NULL;
    free(op->merged);
    op->merged = NULL;
    return merged;
}

md_ds_op *md_ds_merged_of(const md_ds_op *op)
{
    return op->merged ? op->merged->op : NULL;
}

void md_ds_merged_sizes(md_strbuf *out, const md_ds_op *op, const int64_t *size)
{
    print_point(out, &op->merged->how, op->formula, size);
}

/* ---- Serving */

/* Axes first .. first + n - 1 as one. False where they are not contiguous, or empty. */
static inline bool join_axes(md_tensor *out, int32_t axis, const md_tensor *x, int32_t first, int32_t n)
{
    int64_t size = x->size[first];
    for (int32_t a = first + 1; a < first + n; a++) {
        int64_t step;
        if (__builtin_mul_overflow(x->size[a], x->stride[a], &step) || x->stride[a - 1] != step || size <= 0 ||
            x->size[a] <= 0 || __builtin_mul_overflow(size, x->size[a], &size))
            return false;
    }
    out->size[axis] = size;
    out->stride[axis] = x->stride[first + n - 1];
    return true;
}

/* Every dim that was merged has one size: the merged op sees only products. */
static inline bool check_axes(int64_t *size, const md_fx_tensor *t, const md_tensor *x, int32_t first, int32_t n)
{
    for (int32_t a = first; n > 1 && a < first + n; a++) {
        int64_t *known = &size[t->dim[a]];
        if (*known >= 0 && *known != x->size[a])
            return false;
        *known = x->size[a];
    }
    return true;
}

static bool join_tensor(md_tensor *out, const struct md_ds_merged *merged, int64_t *size, const md_fx_formula *f,
                        int32_t id, const md_tensor *x)
{
    const md_fx_tensor *t = &f->tensor[id];
    if (x->rank != t->rank || x->dtype != t->dtype)
        return false;
    out->data = x->data;
    out->dtype = x->dtype;
    out->rank = merged->how.rank[id];
    for (int32_t g = 0, a = 0; g < out->rank; a += merged->how.count[id][g++])
        if (!check_axes(size, t, x, a, merged->how.count[id][g]) || !join_axes(out, g, x, a, merged->how.count[id][g]))
            return false;
    return true;
}

bool md_ds_merged_take(md_ds_merged_args *out, const md_ds_op *op, const md_arg *args, int32_t n_args)
{
    const struct md_ds_merged *merged = op->merged;
    const md_fx_formula *f = op->formula;
    int64_t size[MD_FX_MAX_DIMS];
    if (!merged || !args || n_args != f->n_args)
        return false;
    for (int32_t d = 0; d < f->n_dims; d++)
        size[d] = f->dim[d].size;
    for (int32_t i = 0; i < n_args; i++) {
        out->arg[i] = args[i];
        if (f->args[i].is_scalar)
            continue;
        if (args[i].kind != MD_ARG_TENSOR || !args[i].tensor ||
            !join_tensor(&out->tensor[i], merged, size, f, f->args[i].id, args[i].tensor))
            return false;
        out->arg[i].tensor = &out->tensor[i];
    }
    return true;
}
