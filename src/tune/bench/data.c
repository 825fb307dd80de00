/* Synthetic inputs: patterns of random values, mapped again and again into images of tensors. */
#include "tune/bench/data.h"

#include "base/dtype.h"
#include "base/status.h"
#include "base/writing.h"
#include "expr/node.h"
#include "tune/tune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* An odd number of pages, so that rows of usual lengths do not repeat with the pattern. */
enum { PAGE = 4096, PATTERN_PAGES = 257, PATTERN = PAGE * PATTERN_PAGES, TABLE_ROWS = 65536 };

/* ---- Patterns */

static uint64_t next(uint64_t *state) /* splitmix64 (Vigna) */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Half of the values lie close to 0.31: where a long sum loses bits of them, it always does so in one direction, and is
 * seen to be wrong. */
static void fill_reals(void *to, md_dtype dtype, bool is_positive, bool for_tf32, uint64_t seed)
{
    const int64_t n = md_dtype_capacity(dtype, PATTERN);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t random = next(&seed);
        const double u = (double)(random >> 11) * 0x1p-53;
        const double either = random & 1 ? 2.0 * u - 1.0 : 0.31 + u * 0x1p-10;
        const double v = is_positive ? 0.05 + 0.95 * u : either;
        md_dtype_store(dtype, to, i, for_tf32 && dtype == MD_F32 ? rint(v * 512.0) / 512.0 : v);
    }
}

static void fill_integers(void *to, md_dtype dtype, int64_t limit, const md_tn_indices *given, uint64_t seed)
{
    const int64_t n = md_dtype_capacity(dtype, PATTERN);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = (int64_t)(next(&seed) >> 33);
        if (limit > 0 && given->n > 0)
            v = ((given->value[i % given->n] % limit) + limit) % limit;
        else
            v %= limit > 0 ? limit : dtype == MD_BOOL ? 2 : 10;
        md_dtype_store_int(dtype, to, i, v);
    }
}

static md_status make_pattern(int *fd, md_dtype dtype, int64_t limit, bool is_positive, const md_tn_patterns *p)
{
    md_writing writing;
    *fd = md_above_standard(memfd_create("md-pattern", MFD_CLOEXEC));
    md_writing_begin(&writing); /* the process's limit on file sizes holds for memory files, too */
    const bool has_memory = *fd >= 0 && ftruncate(*fd, PATTERN) == 0;
    md_writing_end(&writing);
    if (!has_memory)
        return md_fail(MD_OUT_OF_MEMORY, "no memory for random data: %s", strerror(errno));
    void *to = mmap(NULL, PATTERN, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (to == MAP_FAILED)
        return md_fail_memory();
    const uint64_t seed = p->seed + 77 * (uint64_t)dtype + (uint64_t)limit;
    if (md_dtype_is_real(dtype))
        fill_reals(to, dtype, is_positive, p->for_tf32, seed);
    else
        fill_integers(to, dtype, limit, &p->indices, seed);
    munmap(to, PATTERN);
    return MD_OK;
}

static md_status find_pattern(int *fd, md_tn_patterns *p, md_dtype dtype, int64_t limit, bool is_positive)
{
    for (int32_t i = 0; i < p->n; i++)
        if (p->pattern[i].dtype == dtype && p->pattern[i].limit == limit && p->pattern[i].is_positive == is_positive) {
            *fd = p->pattern[i].fd;
            return MD_OK;
        }
    if (p->n == MD_TN_MAX_PATTERNS) { /* points have tables of many lengths: start again */
        md_tn_indices indices = p->indices;
        md_tn_patterns_finish(p);
        p->indices = indices;
    }
    md_status s = make_pattern(fd, dtype, limit, is_positive, p);
    if (s != MD_OK) {
        if (*fd >= 0)
            close(*fd);
        return s;
    }
    p->pattern[p->n].fd = *fd;
    p->pattern[p->n].dtype = dtype;
    p->pattern[p->n].limit = limit;
    p->pattern[p->n++].is_positive = is_positive;
    return MD_OK;
}

void md_tn_patterns_finish(md_tn_patterns *p)
{
    for (int32_t i = 0; i < p->n; i++)
        close(p->pattern[i].fd);
    p->n = 0;
}

static int64_t mapped_bytes(int64_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

/* Tensors start at different offsets of a pattern, so that no two are equal. */
static md_status map_image(void **out, int fd, int64_t n_bytes, int32_t tensor)
{
    const int64_t length = mapped_bytes(n_bytes);
    char *at = mmap(NULL, (size_t)length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return md_fail_memory();
    int64_t from = (int64_t)(tensor * 37 % PATTERN_PAGES) * PAGE;
    for (int64_t done = 0; done < length;) {
        int64_t n = MD_MIN(length - done, PATTERN - from);
        if (mmap(at + done, (size_t)n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, from) == MAP_FAILED) {
            munmap(at, (size_t)length);
            return md_fail_memory();
        }
        done += n;
        from = 0;
    }
    *out = at;
    return MD_OK;
}

/* ---- Limits of index values */

typedef struct limits {
    const md_fx_formula *formula;
    const md_kn_shape *shape;
    int64_t of[MD_KN_MAX_TENSORS]; /* values of an index tensor are below it; 0: no index tensor */
    int64_t extent; /* of the axis whose subscript is visited; of lengths one more */
    bool needs_positive;
} limits;

static bool limit_load(void *user, const md_fx_node *node)
{
    limits *l = user;
    if (node->kind == MD_FX_LOAD && !md_dtype_is_real(l->formula->tensor[node->id].dtype))
        l->of[node->id] = l->of[node->id] ? MD_MIN(l->of[node->id], l->extent) : l->extent;
    return true;
}

static void limit_subscript(limits *l, int32_t tensor, int32_t axis, const md_fx_node *subscript)
{
    l->extent = l->shape ? MD_MAX(l->shape->extent[tensor][axis], 1) : 1;
    (void)md_fx_visit(subscript, limit_load, l);
}

static bool look(void *user, const md_fx_node *node)
{
    limits *l = user;
    if (node->kind == MD_FX_LOAD)
        for (int32_t a = 0; a < node->n_args; a++)
            limit_subscript(l, node->id, a, node->arg[a]);
    if (node->kind == MD_FX_LENGTH) {
        l->extent = l->shape ? l->shape->size[node->id] + 1 : 1;
        (void)limit_load(l, node->arg[0]);
    }
    if (node->kind == MD_FX_OP && md_fx_op_info(node->op)->hi > 0)
        l->needs_positive |= md_fx_op_info(node->op)->lo >= 0;
    return true;
}

static void find_limits(limits *l)
{
    for (int32_t s = 0; s < l->formula->n_stmts; s++) {
        const md_fx_stmt *stmt = &l->formula->stmt[s];
        (void)md_fx_visit(stmt->value, look, l);
        for (int32_t a = 0; a < l->formula->tensor[stmt->tensor].rank; a++)
            if (stmt->subscript[a])
                limit_subscript(l, stmt->tensor, a, stmt->subscript[a]);
    }
}

uint32_t md_tn_data_index_tensors(const md_fx_formula *formula)
{
    limits l = {.formula = formula};
    uint32_t tensors = 0;
    find_limits(&l);
    for (int32_t t = 0; t < MD_MIN(formula->n_tensors, 32); t++)
        tensors |= (uint32_t)(l.of[t] > 0) << t;
    return tensors;
}

/* True if the i-th tensor of the stage is read. */
static bool is_read(const md_st_program *program, int32_t stage, int32_t i)
{
    const md_st_stage *s = &program->stage[stage];
    return !s->is_stored[i] || program->formula->tensor[s->tensor[i]].is_updated;
}

void md_tn_data_scalars(md_kn_word scalar[16], const md_fx_formula *formula)
{
    for (int32_t i = 0; i < formula->n_scalars; i++)
        if (formula->scalar[i].type == MD_I64)
            scalar[i].i = 1;
        else
            scalar[i].d = 0.5;
}

/* ---- Shapes */

/* Dims that no index runs over are lengths of tables: any length will do. */
static void lengthen_tables(int64_t *size, const md_fx_formula *f, int64_t rows)
{
    for (int32_t d = 0; d < f->n_dims; d++)
        if (f->dim[d].size < 0 && size[d] <= 0)
            size[d] = MD_MAX(f->dim[d].lo, MD_MIN(f->dim[d].hi, rows));
}

static int64_t count_bytes(md_tn_data *d)
{
    const md_fx_formula *f = d->program->formula;
    const md_st_stage *s = &d->program->stage[d->stage];
    double total = 0.0;
    for (int32_t i = 0; i < s->n_tensors; i++) {
        const md_fx_tensor *t = &f->tensor[s->tensor[i]];
        double n = (double)md_dtype_size(t->dtype);
        for (int32_t a = 0; a < t->rank; a++)
            n *= (double)d->shape.extent[s->tensor[i]][a];
        total += md_dtype_is_packed(t->dtype) ? n / 2.0 : n;
        d->bytes[s->tensor[i]] = n < 1e15 ? (int64_t)n : (int64_t)1e15;
    }
    return total < 1e15 ? (int64_t)total : (int64_t)1e15;
}

static md_status set_shape(md_tn_data *d, const int64_t *size, bool is_ragged, int64_t limit)
{
    int64_t rows = TABLE_ROWS, own[MD_FX_MAX_DIMS];
    do {
        memcpy(own, size, sizeof own);
        lengthen_tables(own, d->program->formula, rows);
        md_tn_shape(&d->shape, d->program, own);
        if (is_ragged)
            d->shape.aligned = d->shape.aligned16 = 0;
        d->total_bytes = count_bytes(d);
        rows /= 2;
    } while (d->total_bytes > limit && rows > 0);
    if (d->total_bytes > limit)
        return md_fail(MD_OUT_OF_MEMORY, "one set of tensors takes %lld bytes; measuring may take %lld",
                       (long long)d->total_bytes, (long long)limit);
    return MD_OK;
}

static md_status map_all(md_tn_data *d, md_tn_patterns *patterns, limits *l)
{
    const md_st_stage *s = &d->program->stage[d->stage];
    for (int32_t i = 0; i < s->n_tensors; i++) {
        const int32_t t = s->tensor[i];
        int fd = -1;
        if (d->bytes[t] == 0 || !is_read(d->program, d->stage, i))
            continue;
        const md_dtype dtype = l->formula->tensor[t].dtype;
        MD_TRY(find_pattern(&fd, patterns, dtype, md_dtype_is_real(dtype) ? 0 : l->of[t],
                            l->needs_positive && md_dtype_is_real(dtype)));
        MD_TRY(map_image(&d->image[t], fd, d->bytes[t], t));
    }
    return MD_OK;
}

md_status md_tn_data_make(md_tn_data *out, md_tn_patterns *patterns, const md_fa_target *target, const int64_t *size,
                          bool is_ragged, int64_t limit)
{
    memset(out, 0, sizeof *out);
    out->program = target->program;
    out->stage = target->stage;
    limits *l = calloc(1, sizeof *l);
    if (!l)
        return md_fail_memory();
    l->formula = target->program->formula;
    l->shape = &out->shape;
    md_status status = set_shape(out, size, is_ragged, limit);
    if (status == MD_OK) {
        find_limits(l);
        status = map_all(out, patterns, l);
    }
    free(l);
    if (status != MD_OK)
        md_tn_data_finish(out);
    return status;
}

void md_tn_data_finish(md_tn_data *data)
{
    for (int32_t t = 0; t < MD_KN_MAX_TENSORS; t++)
        if (data->image[t])
            munmap(data->image[t], (size_t)mapped_bytes(data->bytes[t]));
    memset(data->image, 0, sizeof data->image);
}
