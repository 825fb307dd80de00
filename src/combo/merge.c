/* Groups units whose kernels can be one kernel: those of a level with equal blocks, of at most some kinds. */
#include "combo/merge.h"

#include "base/status.h"
#include "combo/axis.h"
#include "family/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words of parameters: what every CUDA takes, a size between, and what CUDA 12.1 takes. */
enum { SMALL_WORDS = 512, MIDDLE_WORDS = 2048, LARGE_WORDS = 4095, LARGE_SINCE = 12010 };

/* Words of parameters if the items lie in device memory. */
enum { HEAD_WORDS = 64 };

/* From so many tiny items on a warp takes each: a block for each would be several waves of blocks. */
enum { WARP_ITEMS = 512 };

/* A launch takes as long as this much memory traffic (H200: 3 to 4 us). */
enum { WIDEN_BYTES = 16 << 20, HEAVY_US = 75 };

/* From so many bytes on a list cannot lie in the L2. */
enum { TIGHT_BYTES = 128 << 20 };

/* ---- Classes */

typedef struct weighed {
    double weight; /* bytes of a block */
    int64_t unit;
    int32_t level, threads;
    bool by_warps;
} weighed;

static int by_class(const void *a, const void *b)
{
    const weighed *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    if (x->by_warps != y->by_warps)
        return x->by_warps ? -1 : 1;
    if (x->threads != y->threads)
        return x->threads < y->threads ? -1 : 1;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

static bool can_share(const md_kn_geometry *g)
{
    return g->block[1] <= 1 && g->block[2] <= 1 && g->grid[2] <= 1 && g->block[0] >= 32;
}

/* Blocks may have more threads than these kernels use: the others end at once. */
static bool can_be_wider(const md_cb_unit *u)
{
    return !strncmp(u->variant->family->name, "row_", 4) || !strcmp(u->variant->family->name, "pointwise");
}

static bool is_of_class(const weighed *a, const weighed *b)
{
    return a->level == b->level && a->by_warps == b->by_warps && a->threads == b->threads;
}

/* True if a warp can compute a unit. Its kernel takes the sizes that it has for less than MD_CB_WARP_SIZES. */
static bool is_tiny(const md_cb_schedule *plan, const md_cb_unit *u)
{
    const md_kn_param *param = u->variant->param[u->launch];
    const md_kn_word *word = plan->word + u->params;
    if (u->points == 0)
        return false;
    for (int32_t i = 0; i < u->variant->n_params[u->launch]; i++)
        if (param[i].kind == MD_KN_SIZE && (word[i].i < 0 || word[i].i >= MD_CB_WARP_SIZES))
            return false;
    return true;
}

/* Many tiny items of a level are a class of their own. */
static void find_tiny(weighed *w, const md_cb_schedule *plan)
{
    int64_t *n = calloc((size_t)MD_MAX(plan->n_levels, 1), sizeof *n);
    for (int64_t i = 0; n && i < plan->n_units; i++)
        n[w[i].level] += w[i].by_warps = is_tiny(plan, &plan->unit[i]);
    for (int64_t i = 0; n && i < plan->n_units; i++)
        if (w[i].by_warps && n[w[i].level] >= WARP_ITEMS)
            w[i].threads = MD_CB_WARP_THREADS;
        else
            w[i].by_warps = false;
    free(n);
}

/* Little work of a level is one launch though blocks differ: another launch would take longer than what idle threads
 * cost. */
static void widen(weighed *w, const md_cb_schedule *plan)
{
    double *bytes = calloc((size_t)MD_MAX(plan->n_levels, 1), sizeof *bytes);
    int32_t *most = calloc((size_t)MD_MAX(plan->n_levels, 1), sizeof *most);
    for (int64_t i = 0; bytes && most && i < plan->n_units; i++) {
        bytes[w[i].level] += plan->unit[i].bytes;
        if (w[i].threads > 0 && !w[i].by_warps && can_be_wider(&plan->unit[i]))
            most[w[i].level] = MD_MAX(most[w[i].level], w[i].threads);
    }
    for (int64_t i = 0; bytes && most && i < plan->n_units; i++)
        if (bytes[w[i].level] <= WIDEN_BYTES && w[i].threads > 0 && !w[i].by_warps && can_be_wider(&plan->unit[i]))
            w[i].threads = most[w[i].level];
    free(bytes);
    free(most);
}

/* An item that takes long by itself gains nothing from a launch with other kernels, and shares their registers. */
static void part_heavy(weighed *w, const md_cb *cb)
{
    const md_cb_schedule *plan = cb->plan;
    const double most = HEAVY_US * 1e3 * cb->runtime->dev->facts.memory_gbps;
    for (int64_t i = 0; i < plan->n_units; i++) {
        bool is_unlike = false;
        for (int64_t k = 0; most > 0 && plan->unit[i].bytes > most && k < plan->n_units && !is_unlike; k++)
            is_unlike = is_of_class(&w[k], &w[i]) && plan->unit[k].variant != plan->unit[i].variant;
        if (is_unlike)
            w[i].threads = 0;
    }
}

static weighed *weigh(const md_cb *cb)
{
    const md_cb_schedule *plan = cb->plan;
    weighed *w = malloc((size_t)MD_MAX(plan->n_units, 1) * sizeof *w);
    for (int64_t i = 0; w && i < plan->n_units; i++) {
        const md_cb_unit *u = &plan->unit[i];
        w[i] = (weighed){u->bytes / (double)u->geometry.blocks, i, u->level,
                         can_share(&u->geometry) ? u->geometry.block[0] : 0, false};
    }
    if (w) {
        find_tiny(w, plan);
        widen(w, plan);
        part_heavy(w, cb);
    }
    if (w)
        qsort(w, (size_t)plan->n_units, sizeof *w, by_class);
    return w;
}

/* The body of a unit in a group; -1: it has no room for it. */
static int32_t body_for(md_cb_kernel *k, const md_cb_unit *u)
{
    for (int32_t i = 0; i < k->n; i++)
        if (k->body[i].variant == u->variant && k->body[i].launch == u->launch &&
            k->body[i].threads == u->geometry.block[0])
            return i;
    if (k->n == MD_CB_BODIES)
        return -1;
    k->body[k->n] = (md_cb_body){
        .variant = u->variant, .launch = u->launch, .threads = u->geometry.block[0], .shares_scalars = true};
    return k->n++;
}

/* ---- Groups */

static md_status add_group(struct md_cb_merged *m, const md_cb *cb, const weighed *w, int64_t n)
{
    md_cb_group *g = &m->group[m->n++];
    *g = (md_cb_group){.level = w->level, .is_stale = true, .has_old_scalars = true};
    g->kernel.threads = w->threads;
    g->kernel.by_warps = w->by_warps;
    g->unit = malloc((size_t)n * sizeof *g->unit);
    g->body = malloc((size_t)n * sizeof *g->body);
    if (!g->unit || !g->body)
        return md_fail_memory();
    for (int64_t i = 0; i < n; i++) {
        const md_cb_unit *u = &cb->plan->unit[w[i].unit];
        g->unit[g->n] = w[i].unit;
        g->body[g->n++] = (int8_t)body_for(&g->kernel, u);
        g->blocks += u->geometry.blocks;
        g->geometry.scratch_bytes = MD_MAX(g->geometry.scratch_bytes, u->geometry.scratch_bytes);
        g->geometry.overlaps |= u->geometry.overlaps;
    }
    if (w->by_warps)
        g->blocks = (g->n + MD_CB_WARP_THREADS / 32 - 1) / (MD_CB_WARP_THREADS / 32);
    return MD_OK;
}

/* How many of the units from w on make a group: of one class, with few bodies and blocks. */
static int64_t count_group(const md_cb *cb, const weighed *w, int64_t n)
{
    md_cb_kernel k = {.n = 0};
    int64_t blocks = 0, i = 0;
    for (; i < n && is_of_class(&w[i], w); i++) {
        const md_cb_unit *u = &cb->plan->unit[w[i].unit];
        blocks += u->geometry.blocks;
        if (body_for(&k, u) < 0 || blocks > INT32_MAX)
            break;
    }
    return MD_MAX(i, 1);
}

static md_status group_all(struct md_cb_merged *m, const md_cb *cb, const weighed *w)
{
    const int64_t n = cb->plan->n_units;
    for (int64_t i = 0; i < n;) {
        const int64_t count = count_group(cb, w + i, n - i);
        if (count > 1 && w[i].threads > 0)
            MD_TRY(add_group(m, cb, w + i, count));
        else
            for (int64_t k = 0; k < count; k++)
                m->alone[m->n_alone++] = w[i + k].unit;
        i += count;
    }
    return MD_OK;
}

/* ---- Kernels */

static bool same_words(const md_cb *cb, const md_cb_group *g, int32_t body)
{
    const md_cb_body *b = &g->kernel.body[body];
    const md_kn_param *param = b->variant->param[b->launch];
    const md_kn_word *first = NULL;
    for (int64_t i = 0; i < g->n; i++) {
        const md_kn_word *word = cb->plan->word + cb->plan->unit[g->unit[i]].params;
        if (g->body[i] != body)
            continue;
        for (int32_t p = 0; first && p < b->variant->n_params[b->launch]; p++)
            if (param[p].kind == MD_KN_SCALAR && first[p].i != word[p].i)
                return false;
        first = first ? first : word;
    }
    return true;
}

/* Words of an item in the table. */
static int64_t words_of(const md_cb_group *g, int64_t i)
{
    return g->kernel.by_warps ? md_cb_text_stride(&g->kernel) : 2 + g->kernel.body[g->body[i]].n_own;
}

int32_t md_cb_head(const md_cb_kernel *kernel)
{
    int32_t n = md_cb_text_head(kernel);
    for (int32_t i = 0; i < kernel->n; i++)
        n += kernel->body[i].n_shared;
    return n;
}

static int64_t most_words(const md_dev *dev)
{
    const bool is_large =
        dev->facts.nvrtc >= LARGE_SINCE && (dev->facts.driver == 0 || dev->facts.driver >= LARGE_SINCE);
    return is_large ? LARGE_WORDS : SMALL_WORDS;
}

/* Items from `from` on become a group of their own, with the same bodies. */
static md_status cut_off(struct md_cb_merged *m, md_cb_group *g, int64_t from)
{
    md_cb_group *rest = &m->group[m->n];
    const int64_t n = g->n - from;
    *rest = *g;
    rest->n = n;
    rest->unit = malloc((size_t)n * sizeof *rest->unit);
    rest->body = malloc((size_t)n * sizeof *rest->body);
    m->n++;
    if (!rest->unit || !rest->body)
        return md_fail_memory();
    memcpy(rest->unit, g->unit + from, (size_t)n * sizeof *rest->unit);
    memcpy(rest->body, g->body + from, (size_t)n * sizeof *rest->body);
    g->n = from;
    return MD_OK;
}

/* Chooses the size of the table and where its items lie. If they may not lie in device memory, those that do not fit
 * are left to another launch of the same kernel. */
static md_status fit_table(const md_cb *cb, md_cb_group *g)
{
    struct md_cb_merged *m = cb->merged;
    const int64_t most = most_words(cb->runtime->dev);
    int64_t n = md_cb_head(&g->kernel), i = 0;
    for (; i < g->n && n + words_of(g, i) <= most; i++)
        n += words_of(g, i);
    if (i == 0)
        return md_fail(MD_UNSUPPORTED, "an item has too many parameters");
    if (i < g->n && !cb->refuses_far) {
        g->kernel.is_far = true;
        g->kernel.table_words = md_cb_head(&g->kernel) <= HEAD_WORDS ? HEAD_WORDS : SMALL_WORDS;
        return MD_OK;
    }
    if (i < g->n) {
        g->kernel.table_words = (int32_t)most; /* the rest has the same kernel, so its table is as large */
        MD_TRY(cut_off(m, g, i));
    }
    if (g->kernel.table_words > 0)
        return MD_OK;
    g->kernel.table_words = n <= SMALL_WORDS ? SMALL_WORDS : n <= MIDDLE_WORDS ? MIDDLE_WORDS : LARGE_WORDS;
    return MD_OK;
}

/* A kernel of one op has sizes and addresses where it needs no registers for them; one of many items has not, and would
 * take half as many registers again. So plain pointwise kernels are held to what leaves an SM about as full (AdamW: 44
 * of 64 registers, nothing spilled), but only for lists that memory limits. In the L2 (300 tensors of 6,144) the bound
 * seems to cost more than it gives. */
static int32_t min_blocks_of(const md_cb *cb, const md_cb_group *g)
{
    const md_cb_kernel *k = &g->kernel;
    double bytes = 0;
    bool is_wide = false;
    for (int64_t i = 0; i < g->n; i++)
        bytes += cb->plan->unit[g->unit[i]].bytes;
    if (cb->refuses_tight || k->by_warps || k->threads > 256 || bytes < TIGHT_BYTES)
        return 0;
    for (int32_t i = 0; i < k->n; i++) {
        const md_bd_variant *v = k->body[i].variant;
        if (strcmp(v->family->name, "pointwise") != 0 || md_cb_axis_value(v, "unroll", 2) > 1 ||
            md_cb_axis_value(v, "strided", 1) || md_cb_axis_value(v, "transpose", 1))
            return 0;
        is_wide |= md_fa_cuda_width(v->target.program, v->target.stage) > 4;
    }
    return (is_wide ? 1024 : 1280) / MD_MAX(k->threads, 1);
}

static md_status begin_build(md_cb *cb, md_cb_group *g)
{
    g->kernel.min_blocks = min_blocks_of(cb, g);
    md_kn_launch_source source;
    for (int32_t i = 0; i < g->kernel.n; i++)
        g->kernel.body[i].shares_scalars = same_words(cb, g, i);
    md_status status = md_cb_text_print(&source, &g->kernel);
    if (status == MD_OK) { /* printed once, so that the words of each body are known */
        md_strbuf_finish(&source.text);
        status = fit_table(cb, g);
    }
    if (status == MD_OK)
        status = md_cb_text_print(&source, &g->kernel);
    if (status == MD_OK) {
        status = md_bd_text_ask(&g->text, cb->runtime->builder, &source);
        md_strbuf_finish(&source.text);
    }
    if (status != MD_OK && status != MD_OUT_OF_MEMORY) {
        snprintf(g->why, sizeof g->why, "%.190s", md_last_error());
        return MD_OK;
    }
    return status;
}

static int by_group_level(const void *a, const void *b)
{
    const md_cb_group *x = a, *y = b;
    return (x->level > y->level) - (x->level < y->level);
}

md_status md_cb_merge(md_cb *cb)
{
    const size_t n = (size_t)MD_MAX(cb->plan->n_units, 1);
    md_cb_merged_free(cb);
    struct md_cb_merged *m = calloc(1, sizeof *m);
    weighed *w = weigh(cb);
    cb->merged = m;
    md_status status = m && w ? MD_OK : md_fail_memory();
    if (status == MD_OK) {
        m->group = calloc(n, sizeof *m->group);
        m->alone = malloc(n * sizeof *m->alone);
        status = m->group && m->alone ? group_all(m, cb, w) : md_fail_memory();
    }
    for (int64_t i = 0; status == MD_OK && i < m->n; i++)
        status = begin_build(cb, &m->group[i]);
    free(w);
    if (status == MD_OK && m->n > 1)
        qsort(m->group, (size_t)m->n, sizeof *m->group, by_group_level);
    if (status != MD_OK)
        md_cb_merged_free(cb);
    return status;
}

bool md_cb_has_refused(const md_cb *cb)
{
    for (int64_t i = 0; i < cb->merged->n; i++) {
        const md_cb_kernel *k = &cb->merged->group[i].kernel;
        if ((k->is_far && cb->refuses_far) || (k->min_blocks > 0 && cb->refuses_tight))
            return true;
    }
    return false;
}

void md_cb_merged_free(md_cb *cb)
{
    struct md_cb_merged *m = cb->merged;
    if (!m)
        return;
    for (int64_t i = 0; m->group && i < m->n; i++) {
        md_cb_group *g = &m->group[i];
        free(g->unit);
        free(g->body);
        free(g->table);
        md_cb_far_finish(&g->far, cb->runtime);
    }
    free(m->group);
    free(m->alone);
    free(m);
    cb->merged = NULL;
}
